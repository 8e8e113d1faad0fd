"""Tests of the reductions in the compile report: cycles, lower bounds and the cheapest pattern of each."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from placements import ONE_REGION
from tiers import slow_but

from tests.models.helpers import write_model
from wse.backends.fabric.line.closed_forms import level_cycles, reduce_bound
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.model import Fabric
from wse.program.program import Program
from wse.program.steps import ROWS, Slots
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type, transfer_of
from wse.studies.compile import reduces
from wse.studies.compile.choose import compile_program
from wse.studies.compile.compile import compile_result
from wse.studies.compile.reduces import CombinedSegment, longest_segment, reduces_result
from wse.studies.options.option import make_request
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.request import RunRequest
from wse_mappings.cuts.split import balanced_segments
from wse_mappings.patterns.auto import cheapest_pattern
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.line_reduces import both_sides, reduce_multicast
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.rings import ring_all_reduce, ring_reduce, ring_shift
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

ADD = Arrival.ADD
REQUESTS: list[dict[str, Any]] = [
    {"mesh": "2x2"},
    {"mesh": "9x5"},
    {"mesh": "8x8", "dtype": "float16", "software": "academic"},
]
KEYS = ["pattern", "along", "steps", "pes", "words", "cycles", "bound_cycles", "times_bound"]
SEARCHED = ["cheapest", "cheapest_cycles"]
Placed = tuple[PreparedRun, Program, Slots, list[dict[str, Any]]]
"""A request, its Program, the cache slots that decoding uses, and the rows of the report."""


def rows_of(prepared: PreparedRun, program: Program, slots: Slots) -> list[dict[str, Any]]:
    return [row.to_dict() for row in reduces_result(program, prepared.wafer, prepared.software, slots)]


def placed_run(request: RunRequest) -> Placed:
    """Compile a request and compute the rows of its reductions."""
    prepared = prepare(request)
    program = compile_program(prepared)
    slots = program.cache_slots(4)
    return prepared, program, slots, rows_of(prepared, program, slots)


@pytest.fixture(scope="module", params=slow_but(REQUESTS, *REQUESTS[:2]), ids=str)
def placed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    model = str(write_model(tmp_path_factory.mktemp("model")))
    return placed_run(
        make_request(RunRequest, model=model, prompt_ids=(1, 2, 3), schedule="baseline", **(ONE_REGION | request.param))
    )


@pytest.fixture(scope="module")
def story() -> Placed:
    return placed_run(make_request(RunRequest, model="story", prompt_ids=(1, 2, 3), **ONE_REGION))


def cycles(prepared: PreparedRun, pattern: LineSchedule, words: int) -> float:
    """Return the cycles of a pattern on a line by the fabric model, without any cached times."""
    software = prepared.software
    costs = LineCosts.of(prepared.wafer, software.reduce_gap_cycles, software.relay_cycles)
    return PatternTimes(costs).time([LinePattern(pattern, 0, words, ROWS)]).cycles.total


def combining_steps(program: Program) -> list[int]:
    """Return the indices of the decode steps that combine words of several PEs."""
    phase = program.decode
    moving = np.flatnonzero(is_of_type(phase.steps, AlongLine)).tolist()
    return [s for s in moving if np.isin(program.patterns[phase.steps.pattern[s]].messages[:, 2], COMBINING).any()]


def test_rows_contain_all_combining_steps_with_their_cycles(placed: Placed) -> None:
    prepared, program, slots, rows = placed
    phase, software = program.decode, prepared.software
    cost = Fabric(program, prepared.wafer, software).decode_cost(3)
    charged: Counter[tuple[str, str, int, float]] = Counter()
    for step in combining_steps(program):
        launch = software.task_dispatch_cycles + software.vector_issue_cycles
        route_rewrites = phase.steps.route_rewrites[step] * software.route_rewrite_cycles
        name, along = (
            program.patterns[phase.steps.pattern[step]].name,
            "rows" if phase.steps.axis[step] == ROWS else "columns",
        )
        alone = float(cost.by_cause[step].sum()) - launch - route_rewrites
        charged[name, along, transfer_of(program, phase, step, slots).words, alone] += 1
    reported: Counter[tuple[str, str, int, float]] = Counter()
    for row in rows:
        reported[row["pattern"], row["along"], row["words"], row["cycles"]] += row["steps"]
    assert reported == charged
    assert reported
    assert rows == sorted(rows, key=lambda row: -row["steps"] * row["cycles"])


def test_bound_and_cheapest_pattern_equal_direct_calls(placed: Placed) -> None:
    prepared, _, _, rows = placed
    wafer = prepared.wafer
    for row in rows:
        pes, words = row["pes"], row["words"]
        root = root_of(pes) if row["pattern"] == "reduce" else 0
        assert row["bound_cycles"] == reduce_bound(pes, words, wafer, root=root)
        assert row["times_bound"] == row["cycles"] / row["bound_cycles"]
        best = cheapest_pattern(
            row["pattern"],
            pes,
            1,
            ADD,
            words=words,
            level_cycles=level_cycles(wafer),
            cost=lambda pattern, words=words: cycles(prepared, pattern, words),
        )
        assert (row["cheapest"], row["cheapest_cycles"]) == (best.label, best.cost)


@given(length=st.integers(2, 60), cuts=st.integers(1, 8), everywhere=st.booleans(), arrival=st.sampled_from(COMBINING))
def test_longest_segment_of_a_k_tree_has_its_root(
    *, length: int, cuts: int, everywhere: bool, arrival: Arrival
) -> None:
    segments = tuple(balanced_segments(length, min(cuts, length // 2)))
    pattern = k_tree(length, 3, arrival, broadcast=everywhere, segments=segments)
    pes = max(count for _, count in segments)
    root = 0 if everywhere else root_of(pes)
    operation = "all_reduce" if everywhere else "reduce"
    assert longest_segment(pattern) == CombinedSegment(operation, pes, root, arrival == Arrival.ARGMAX)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (chain(7, 2, ADD), CombinedSegment("reduce", 7, 0, pairs=False)),
        (star(7, 2, ADD), CombinedSegment("reduce", 7, 0, pairs=False)),
        (both_sides(9, 2, ADD, chain), CombinedSegment("reduce", 9, 4, pairs=False)),
        (reduce_multicast(two_phase(9, 2, ADD), 0), CombinedSegment("all_reduce", 9, 0, pairs=False)),
        (ring_all_reduce(6, 2, ADD), CombinedSegment("all_reduce", 6, 0, pairs=False)),
        (k_tree(1, 2, ADD, broadcast=True), None),
        (multicast(8, 2, 3), None),
        (ring_shift(8, 8), None),
        (ring_reduce(8), None),  # each PE receives the sum of a different line
    ],
    ids=lambda value: value.name if isinstance(value, LineSchedule) else "",
)
def test_longest_segment_of_other_patterns(pattern: LineSchedule, expected: CombinedSegment | None) -> None:
    assert longest_segment(pattern) == expected


def test_lines_above_the_limit_are_not_searched(story: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, program, slots, rows = story
    assert all(list(row) == KEYS + SEARCHED for row in rows)
    monkeypatch.setattr(reduces, "MAX_PES", 9)
    short = rows_of(prepared, program, slots)
    assert all(list(row) == (KEYS + SEARCHED if row["pes"] == 3 else KEYS[:-2]) for row in short)
    assert {row["pes"] for row in short} == {3, 10}
    assert [row["cycles"] for row in short] == [row["cycles"] for row in rows]


def test_single_pe_has_no_reductions(tmp_path: Path) -> None:
    prepared = prepare(make_request(RunRequest, model=str(write_model(tmp_path)), prompt_ids=(1, 2, 3), mesh="1x1"))
    assert compile_result(prepared, compile_program(prepared)).fabric.reduces == ()
