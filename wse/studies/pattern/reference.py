"""Cycle-by-cycle simulation of a pattern on a line, with a check of the words that arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from wse.arrays import F32
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.reports.number_text import plural
from wse_mappings.outcome import PatternOutcome
from wse_mappings.schedule import LineSchedule

LARGEST_VALUE: Final = 100
"""Largest value of a word. Words are integers, so their sums have no rounding errors."""


def simulate_pattern(
    schedule: LineSchedule, words: int, wafer: WaferSpec, software: SoftwareProfile, *, log: bool = False
) -> tuple[WaveletMachine, MachineRun, F32]:
    """Simulate a communication pattern on a line of PEs cycle by cycle, with random words.

    The values of the words are integers, so that their sums have no rounding errors.

    Args:
        schedule: Messages of the pattern.
        words: Number of words in the memory of each PE. For a gather, which collects the words of
            all PEs, this is the size of the result.
        wafer: Wafer to simulate.
        software: Costs of the software, such as the cycles between two operations.
        log: True to record every move of a word between routers, for example for an animation.

    Returns:
        The simulated machine, the record of its simulation, and the initial words of the PEs,
        float32 ``[pes, words]``.

    Raises:
        BadInput: The pattern needs more colours (each selects a route) or switch positions
            (settings of a router for a colour) than the wafer has.
        Deadlock: Messages of the pattern wait for each other.
    """
    machine = WaveletMachine(wafer, 1, schedule.length, words)
    lines = Lines(machine=machine, gap_cycles=software.reduce_gap_cycles, relay_cycles=software.relay_cycles)
    lines.path(schedule, [(0, col) for col in range(schedule.length)], words)
    values = np.random.default_rng(words).integers(1, LARGEST_VALUE, (schedule.length, words)).astype(np.float32)
    return machine, run(machine, values[None], log=log), values


def wrong_words(outcome: PatternOutcome, schedule: LineSchedule, machine_run: MachineRun, initial_words: F32) -> str:
    """Check that a simulated pattern leaves the right words in the memory of PEs.

    1. Compute the expected result of the collective operation, and select the PEs that must have
       this result.
    2. Count the words that differ.

    Args:
        outcome: The collective operation, such as an all-reduce, and its root.
        schedule: Messages of the pattern.
        machine_run: The simulated run.
        initial_words: Initial words of the PEs, float32 ``[pes, words]``.

    Returns:
        A sentence with the number of wrong words; empty if all words are correct.
    """
    memory, root = machine_run.memory[0], outcome.root
    expected_words, found_words = initial_words.sum(axis=0), memory[root]  # 1, for a reduce
    if outcome.collective == "all_reduce":
        found_words = memory
    elif outcome.collective == "broadcast":
        expected_words, found_words = initial_words[root], memory
    elif outcome.collective in ("gather", "all_gather"):
        messages, _, part = schedule.variant_messages(int(schedule.variants[0, 0]))
        assert part is not None
        owner = dict(zip(part[::-1].tolist(), messages[::-1, 0].tolist(), strict=True))
        spans = np.arange(schedule.parts + 1) * initial_words.shape[1] // schedule.parts
        expected_words = np.concatenate(
            [initial_words[owner.get(i, root), a:b] for i, (a, b) in enumerate(pairwise(spans.tolist()))]
        )
        found_words = memory if outcome.collective == "all_gather" else memory[root]
    wrong_count = int((found_words != expected_words).sum())  # 2
    return f"{plural(wrong_count, 'word')} of {found_words.size:,} arrived wrong cycle by cycle" if wrong_count else ""
