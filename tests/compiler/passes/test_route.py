"""Test colours: no more than the wafer has, distinct at the same time, rewritten if shared."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import Options
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
