"""Colours of patterns: which share a colour, and rewrites of routes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.passes.colouring import colouring, rewrite_count
from wse.compiler.passes.route_demand import RouteDemand, Visits
from wse.compiler.pipeline import compile_choice
from wse.errors import TooFewColours
from wse.program.program import ColourUse, Program
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.transfer_types import is_of_type

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))


def compiled(mesh: tuple[int, int], colours: int, prefill: str) -> Program:
    choice = Choice(prefill=prefill, prefill_chunk=9, head_chunk=67)
    machine = replace(wafer(*mesh, 1 << 20), colours=colours + 3, reserved_colours=3)
    return compile_choice(tiny_spec(), machine, SOFTWARE, OPTIONS, choice)


def span(use: ColourUse) -> set[int]:
    return set(range(use.first, use.first + use.colours))


@pytest.mark.parametrize("colours", [*range(11, 40), 100])
@pytest.mark.parametrize("prefill", ["mesh-gemm", "mesh-gemm-own-weights", "thin-gemm"])
def test_patterns_keep_to_the_colours_that_the_wafer_gives(colours: int, prefill: str) -> None:
    program = compiled((6, 6), colours, prefill)
    assert all(use.first >= 0 and use.first + use.colours <= colours for use in program.colour_uses)
    own = [span(use) for use in program.colour_uses if not use.is_rewritten]
    assert sum(map(len, own)) == len(set().union(*own)), "patterns with colours of their own share none"
    shared = set().union(*(span(use) for use in program.colour_uses if use.is_rewritten))
    assert not shared & set().union(*own)


def test_with_colours_for_all_no_route_is_rewritten() -> None:
    program = compiled((6, 6), 100, "mesh-gemm")
    assert not any(use.is_rewritten for use in program.colour_uses)
    assert not any(phase.steps.route_rewrites.any() for phase in program.phases)


def test_with_few_colours_routes_are_rewritten_and_a_token_counts_it() -> None:
    program = compiled((6, 6), 11, "mesh-gemm")
    assert program.decode.steps.route_rewrites.sum() > 0
    assert is_of_type(program.decode.steps, AlongLine, CacheShift)[program.decode.steps.route_rewrites > 0].all()


def test_patterns_that_run_together_never_share_a_colour() -> None:
    program = compiled((6, 6), 11, "mesh-gemm")
    by_name: dict[tuple[str, int], list[set[int]]] = defaultdict(list)
    for use in program.colour_uses:
        by_name[use.pattern, use.axis].append(span(use))
    for phase in program.phases:
        groups = defaultdict(set)
        for step in np.flatnonzero((phase.steps.overlap >= 0) & is_of_type(phase.steps, AlongLine)):
            pattern = program.patterns[phase.steps.pattern[step]]
            groups[int(phase.steps.overlap[step])].add((pattern.name, int(phase.steps.axis[step])))
        for group in groups.values():
            spans = [colours for key in group for colours in by_name[key]]
            assert sum(map(len, spans)) == len(set().union(*spans))


def test_too_few_colours_for_one_pattern_is_refused_with_the_numbers() -> None:
    with pytest.raises(TooFewColours, match=r"need 10 colours, but the wafer has only 9 for them"):
        compiled((6, 6), 9, "thin-gemm")


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
