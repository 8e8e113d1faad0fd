"""Test colours of routes: few rewrites per token, and prompts that share with prompts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wse.compiler.passes.colouring import colouring, rewrite_count
from wse.compiler.passes.route_demand import RouteDemand, Visits


def demand(
    widths: Sequence[int],
    visits: Sequence[int],
    times: int = 10,
    *,
    uses: Sequence[int] = (),
    beside: Sequence[int] = (),
) -> RouteDemand:
    """Return routes of which tokens visit some, in order; the others are used in prompts."""
    in_turn: Visits = tuple((route, 1) for route in visits)
    return RouteDemand(
        widths=tuple(widths),
        is_in_tokens=tuple(route in visits for route in range(len(widths))),
        uses=tuple(uses) or (1,) * len(widths),
        simultaneous_routes=tuple(beside) or (0,) * len(widths),
        max_widths=(max(widths[route] for route in visits), max(widths)),
        tokens=(((in_turn, times),),),
    )


def rewrites_of(one: RouteDemand, available: int) -> int:
    """Return the rewrites in the second of two equal runs through the blocks of tokens."""
    found = colouring(one, available)
    (((visits, _),),) = one.tokens
    _, painted = rewrite_count(visits, found.own, found.conflicts)
    return rewrite_count(visits, painted, found.conflicts)[0]


def test_routes_with_room_for_all_are_never_rewritten() -> None:
    one = demand([5, 5, 3, 2], [0, 1, 2, 0, 3])
    found = colouring(one, 15)
    assert found.own == 0b1111
    assert not any(found.conflicts)
    assert rewrites_of(one, 15) == 0


def test_those_that_share_are_the_ones_that_cost_the_fewest_rewrites() -> None:
    """Two narrow routes that are used once share colours, not the widest, which is used often."""
    assert rewrites_of(demand([5, 5, 3, 3], [0, 1, 0, 2, 0, 1, 3]), 13) == 2
    assert rewrites_of(demand([2, 2, 2], [0, 1, 1, 1, 2, 2]), 4) == 2  # neighbours of one another stay as they are


def test_routes_of_prompts_take_colours_that_prompts_want_least_and_tokens_never_notice() -> None:
    one = demand([5, 5, 5, 5], [0, 1], uses=[9, 2, 9, 1])
    found = colouring(one, 12)
    assert found.own == 0b0011
    assert [found.first[route] for route in (0, 1)] == [0, 5]
    assert not found.conflicts[2] & 0b0001
    assert rewrites_of(one, 12) == 0


def test_routes_that_run_together_share_nothing() -> None:
    found = colouring(demand([3, 3, 3], [0, 1, 2], beside=[0b010, 0b001, 0]), 6)
    assert not found.conflicts[0] & 0b010


@pytest.mark.parametrize("available", [4, 5])
def test_too_few_colours_have_no_answer(available: int) -> None:
    assert colouring(demand([3, 3], [0, 1], beside=[0b10, 0b01])._replace(max_widths=(6, 6)), available) is None


def test_a_rewrite_takes_away_what_shares_a_colour() -> None:
    assert rewrite_count(((0, 1), (1, 1), (0, 3)), 0, [0b10, 0b01]) == (5, 0b01)
    assert rewrite_count(((0, 1), (1, 1)), 0b11, [0, 0]) == (0, 0b11)
