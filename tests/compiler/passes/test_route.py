"""Tests of the colours of patterns: which patterns share a colour, and how often routes are rewritten."""

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
from wse.program.program import Program
from wse.program.stage import ColourUse
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.transfer_types import is_of_type

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))


def compiled(mesh: tuple[int, int], colours: int, prefill: str) -> Program:
    """Return a Program on a wafer with ``colours`` colours for patterns."""
    choice = Choice(prefill=prefill, prefill_chunk=9, head_chunk=67)
    machine = replace(wafer(*mesh, 1 << 20), colours=colours + 3, reserved_colours=3)
    return compile_choice(tiny_spec(), machine, SOFTWARE, OPTIONS, choice)


def colours_of(use: ColourUse) -> set[int]:
    return set(range(use.first, use.first + use.colours))


@pytest.mark.parametrize(
    ("colours", "prefill"),
    [(11, "mesh-gemm"), (16, "mesh-gemm-own-weights"), (19, "mesh-gemm"), (24, "thin-gemm"), (30, "mesh-gemm")],
)
def test_patterns_use_only_the_colours_of_the_wafer(colours: int, prefill: str) -> None:
    program = compiled((6, 6), colours, prefill)
    assert all(use.first >= 0 and use.first + use.colours <= colours for use in program.colour_uses)
    own_colours = [colours_of(use) for use in program.colour_uses if not use.is_rewritten]
    assert sum(map(len, own_colours)) == len(set().union(*own_colours)), (
        "patterns without rewrites do not share colours"
    )
    shared = set().union(*(colours_of(use) for use in program.colour_uses if use.is_rewritten))
    assert not shared & set().union(*own_colours)


def test_routes_are_not_rewritten_with_enough_colours() -> None:
    program = compiled((6, 6), 100, "mesh-gemm")
    assert not any(use.is_rewritten for use in program.colour_uses)
    assert not any(phase.steps.route_rewrites.any() for phase in program.phases)


def test_routes_are_rewritten_and_counted_with_few_colours() -> None:
    program = compiled((6, 6), 11, "mesh-gemm")
    assert program.decode.steps.route_rewrites.sum() > 0
    assert is_of_type(program.decode.steps, AlongLine, CacheShift)[program.decode.steps.route_rewrites > 0].all()


def test_patterns_that_run_at_the_same_time_never_share_a_colour() -> None:
    program = compiled((6, 6), 11, "mesh-gemm")
    by_name: dict[tuple[str, int], list[set[int]]] = defaultdict(list)
    for use in program.colour_uses:
        by_name[use.pattern, use.axis].append(colours_of(use))
    for phase in program.phases:
        groups = defaultdict(set)
        for step in np.flatnonzero((phase.steps.overlap >= 0) & is_of_type(phase.steps, AlongLine)):
            pattern = program.patterns[phase.steps.pattern[step]]
            groups[int(phase.steps.overlap[step])].add((pattern.name, int(phase.steps.axis[step])))
        for group in groups.values():
            spans = [colours for key in group for colours in by_name[key]]
            assert sum(map(len, spans)) == len(set().union(*spans))


def test_too_few_colours_for_one_pattern_are_refused_with_the_numbers() -> None:
    with pytest.raises(TooFewColours, match=r"need 10 colours, but the wafer has only 9 for them"):
        compiled((6, 6), 9, "thin-gemm")


def demand(
    widths: Sequence[int],
    visits: Sequence[int],
    times: int = 10,
    *,
    uses: Sequence[int] = (),
    simultaneous: Sequence[int] = (),
) -> RouteDemand:
    """Return routes of which tokens visit some, in order; prompts use the others.

    Args:
        widths: Colours that each route needs.
        visits: Routes that a token visits, in order.
        times: Number of consecutive runs of the visits.
        uses: How often each route is used.
        simultaneous: For each route, a bit set of the routes that run at the same time.
    """
    token_visits: Visits = tuple((route, 1) for route in visits)
    return RouteDemand(
        widths=tuple(widths),
        is_in_tokens=tuple(route in visits for route in range(len(widths))),
        uses=tuple(uses) or (1,) * len(widths),
        simultaneous_routes=tuple(simultaneous) or (0,) * len(widths),
        max_widths=(max(widths[route] for route in visits), max(widths)),
        tokens=(((token_visits, times),),),
    )


def rewrites_of(one: RouteDemand, available: int) -> int:
    """Return the rewrites in the second of two equal runs through the blocks of tokens."""
    found = colouring(one, available)
    (((visits, _),),) = one.tokens
    _, coloured = rewrite_count(visits, found.own, found.conflicts)
    return rewrite_count(visits, coloured, found.conflicts)[0]


def test_routes_with_enough_colours_are_never_rewritten() -> None:
    one = demand([5, 5, 3, 2], [0, 1, 2, 0, 3])
    found = colouring(one, 15)
    assert found.own == 0b1111
    assert not any(found.conflicts)
    assert rewrites_of(one, 15) == 0


def test_routes_share_colours_so_that_rewrites_are_fewest() -> None:
    """Two narrow routes that are used once share colours. The widest route, which is used often, does not share."""
    assert rewrites_of(demand([5, 5, 3, 3], [0, 1, 0, 2, 0, 1, 3]), 13) == 2
    assert rewrites_of(demand([2, 2, 2], [0, 1, 1, 1, 2, 2]), 4) == 2  # consecutive visits need no rewrite


def test_routes_of_prompts_share_with_rarely_used_ones_and_not_with_tokens() -> None:
    one = demand([5, 5, 5, 5], [0, 1], uses=[9, 2, 9, 1])
    found = colouring(one, 12)
    assert found.own == 0b0011
    assert [found.first[route] for route in (0, 1)] == [0, 5]
    assert not found.conflicts[2] & 0b0001
    assert rewrites_of(one, 12) == 0


def test_routes_that_run_at_the_same_time_share_no_colours() -> None:
    found = colouring(demand([3, 3, 3], [0, 1, 2], simultaneous=[0b010, 0b001, 0]), 6)
    assert not found.conflicts[0] & 0b010


@pytest.mark.parametrize("available", [4, 5])
def test_colouring_returns_none_with_too_few_colours(available: int) -> None:
    assert colouring(demand([3, 3], [0, 1], simultaneous=[0b10, 0b01])._replace(max_widths=(6, 6)), available) is None


def test_rewrite_removes_routes_that_share_a_colour() -> None:
    assert rewrite_count(((0, 1), (1, 1), (0, 3)), 0, [0b10, 0b01]) == (5, 0b01)
    assert rewrite_count(((0, 1), (1, 1)), 0b11, [0, 0]) == (0, 0b11)
