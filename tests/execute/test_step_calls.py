"""Tests of the calls of a step: kernels of the messages of a line, builds for several cores, and phases bound once."""

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from carried_lines import carry, memory_of
from session import SOFTWARE, Session, session, wafer
from tiny_model import tensors, tiny_spec
from tiny_run import tiny_session

from tests.kernels.helpers import JIT
from wse.backends.execute.engine import Engine
from wse.compiler.choice import Choice
from wse.compiler.options import THIN_GEMM, Options
from wse.compiler.pipeline import compile_choice
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import is_of_type, transfer_of
from wse_kernels import library
from wse_kernels.codegen.jit import build_of
from wse_kernels.library import MIN_CORE_S, STORING, TRIALS, WAKES, compiled_kernel, parallel_core_s
from wse_mappings.schedule import Arrival, LineSchedule, varied_schedule

SIDE, ELEMENTS = 17, 21
ADD, REPLACE, MAX, MULTICAST = Arrival.ADD, Arrival.REPLACE, Arrival.MAX, Arrival.MULTICAST
SHIFTS = [[(i, (i + by) % SIDE, REPLACE) for i in range(SIDE)] for by in (1, 3)]
SUMS = [[*((i, i + 1, ADD) for i in range(by)), (by, 0, MULTICAST)] for by in (5, SIDE - 1)]


@cache
def engine() -> tuple[Engine, Program]:
    """Return an engine of the tiny model on a region of 17 x 17 PEs, and its Program."""
    spec, choice = tiny_spec(), Choice(prefill="thin-gemm", prefill_chunk=3, head_chunk=2)
    options = Options(mapping="region", wafers=1, dtype="float16", accumulate="float32", context=9, prompt_tokens=(3,))
    program = compile_choice(spec, wafer(SIDE, SIDE), SOFTWARE, options, choice)
    return Engine(program, spec, tensors(spec).__getitem__), program


def pattern(groups: list[list[tuple[int, int, Arrival]]], parts: int = 1) -> LineSchedule:
    """Return a line schedule whose variants alternate from line to line.

    Args:
        groups: Messages of each variant, as (source, destination, arrival).
        parts: Number of parts of each message, which are sent one after another.
    """
    messages = [[message for _ in range(parts) for message in group] for group in groups]
    schedule = varied_schedule("any", SIDE, messages, np.arange(SIDE, dtype=np.int32)[None] % len(groups), colours=1)
    if parts == 1:
        return schedule
    part = [np.repeat(np.arange(parts), len(group)) for group in groups]
    return replace(schedule, parts=parts, part=np.concatenate(part).astype(np.int32))


def transfer_on_lines(schedule: LineSchedule, axis: int, source: int, target: int) -> tuple[Transfer, LineMessages]:
    """Return a transfer of float16 activations by a schedule on all lines of the region, and its messages.

    Args:
        schedule: Messages of each line.
        axis: Axis of the lines, ROWS or COLUMNS.
        source: Address of the values that are sent.
        target: Address at which they arrive.
    """
    program = engine()[1]
    step = int(np.flatnonzero(is_of_type(program.decode.steps, AlongLine))[0])
    found = transfer_of(program, program.decode, step, program.cache_slots(0))
    view = program.element_types.index("float16")
    site = replace(found.site, pattern=schedule, axis=axis, view=view, first_row=0, rows=SIDE)
    transfer = replace(found, site=site, source=source, target=target, elements=ELEMENTS)
    assert isinstance(transfer.messages, LineMessages)
    return transfer, transfer.messages


@pytest.mark.parametrize(
    ("schedule", "axis", "addresses", "kernel"),
    [
        (pattern(SHIFTS), ROWS, (3, 3 + ELEMENTS), "exchange_along_rows"),
        (pattern(SHIFTS), ROWS, (3, 3), "along_rows"),
        (pattern(SHIFTS, 2), ROWS, (3, 3 + ELEMENTS), "along_rows"),
        (pattern(SHIFTS), COLUMNS, (3, 3 + ELEMENTS), "exchange_along_columns"),
        (pattern(SHIFTS), COLUMNS, (3, 3), "along_columns"),
        (pattern(SHIFTS[:1]), COLUMNS, (3, 3 + ELEMENTS), "along_columns"),
        (pattern(SUMS), ROWS, (3, 3), "along_rows_in_place"),
        (pattern(SUMS), ROWS, (3, 3 + ELEMENTS), "along_rows"),
        (pattern(SUMS, 2), ROWS, (3, 3), "along_rows"),
        (pattern([[*SUMS[0], (4, 2, MAX)], SUMS[1]]), ROWS, (3, 3), "along_rows"),
        (pattern(SUMS[:1], 3), COLUMNS, (3, 3), "along_columns"),
        (pattern(SUMS), COLUMNS, (3, 3), "along_columns"),
        (pattern(SUMS[:1]), COLUMNS, (3, 3), "along_columns_in_place"),
    ],
)
def test_kernel_is_chosen_by_the_messages_and_moves_their_words(
    schedule: LineSchedule, axis: int, addresses: tuple[int, int], kernel: str
) -> None:
    """Exchanges need disjoint source and target ranges. Sums in place need messages in one part."""
    transfer, messages = transfer_on_lines(schedule, axis, *addresses)
    (run, _), (arena, *_) = engine(), engine()[0].arenas.values()
    values = np.random.default_rng(1).normal(size=arena.view("float16").shape)
    arena.view("float16")[...] = values.astype(np.float16).view(np.uint16)
    expected = memory_of(arena, "float16")
    carry(expected, "float16", transfer, messages)
    function, arguments = run._binder._moves._lines.call(transfer, messages)
    assert function.__name__ == kernel
    function(*arguments)
    np.testing.assert_array_equal(memory_of(arena, "float16"), expected)


@pytest.mark.parametrize("axis", [ROWS, COLUMNS])
def test_transfer_with_overlapping_source_and_target_is_refused(axis: int) -> None:
    """Kernels move several elements at once, so words that arrive in the source range would be lost."""
    transfer, messages = transfer_on_lines(pattern(SUMS[:1]), axis, 3, 2 + ELEMENTS)
    with pytest.raises(AssertionError, match="among those that are sent"):
        engine()[0]._binder._moves._lines.call(transfer, messages)


PROMPT = (1, 410, 469, 347)


def run(test_data: Path, mesh: tuple[int, int]) -> Session:
    """Return a session of stories260k with logits out."""
    return session(test_data / "models" / "stories260k", mesh, prompt=PROMPT, new_tokens=4, logits=True)


def set_parallel_threshold(monkeypatch: pytest.MonkeyPatch, threshold_s: float) -> None:
    """Run steps on all cores if one core would take longer than ``threshold_s`` seconds."""
    monkeypatch.setattr(library, "MIN_CORE_S", threshold_s)
    monkeypatch.setattr(library, "parallel_core_s", lambda: 0.0)


def builds(run: Session) -> set[bool]:
    """Return the builds that a decoded token calls: True for a build for all cores, False for one core."""
    calls = run.engine._binder._bind(run.program.decode, run.program.cache_slots(5)).calls
    return {build_of(function)[1] for function, _ in calls if hasattr(function, "py_func")}


def test_step_runs_on_all_cores_above_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled_kernel("add")
    for measured_s, threshold_s in ((0.0, MIN_CORE_S), (3 * MIN_CORE_S, 3 * MIN_CORE_S)):
        monkeypatch.setattr(library, "parallel_core_s", lambda measured_s=measured_s: measured_s)
        assert kernel.for_time(threshold_s) is kernel.serial
        assert kernel.for_time(1.01 * threshold_s) is kernel.parallel


@pytest.mark.skipif(not JIT, reason="interpreted kernels have no threads")
def test_threshold_follows_the_time_to_wake_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold is WAKES times the median wake time, so a third of slow trials does not change it."""
    monkeypatch.setattr(library, "THREADS", 2)
    slow_s = [1.0] * (TRIALS // 3)
    for trials_s, expected_s in (([0.0] * TRIALS, 0.0), (slow_s + [1e-6] * (TRIALS - len(slow_s)), WAKES * 1e-6)):
        ticks = itertools.accumulate(trials_s, initial=0.0)
        monkeypatch.setattr(library.time, "perf_counter", lambda ticks=ticks: next(ticks))
        assert parallel_core_s.__wrapped__() == pytest.approx(expected_s)


@pytest.mark.skipif(not JIT, reason="interpreted kernels have one build")
def test_steps_of_a_small_mesh_run_on_one_core(test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = run(test_data, (16, 16))
    assert builds(small) == {False}
    set_parallel_threshold(monkeypatch, 0.0)
    assert True in builds(small)


@pytest.mark.skipif(not JIT, reason="interpreted kernels have one build")
def test_kernels_that_store_weights_have_one_build() -> None:
    found = {name: compiled_kernel(name) for name in (*STORING, "along_rows", "gemv")}
    assert {name for name, kernel in found.items() if kernel.parallel is kernel.serial} == set(STORING)


def test_phases_with_the_same_calls_are_bound_once() -> None:
    """Every chunk is one token. The first chunk starts the prompt, and from the sixth on a row has two cache slots."""
    run = tiny_session(tiny_spec(), (5, 5), THIN_GEMM, range(1, 8), 2, chunk=1)
    bind, slots_of = run.engine._binder.bind, run.program.cache_slots
    chunks = run.program.prefill
    assert len({phase.steps for phase in chunks}) == 2, "only the last chunk returns logits"
    bound = [bind(phase, slots_of(phase.cached + phase.tokens)) for phase in chunks]
    assert bound[1] is bound[2] is bound[4]
    assert bound[1] is not bound[0]
    assert bound[4] is not bound[5]
    assert bound[5] is not bound[6]
