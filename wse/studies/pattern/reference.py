"""A pattern executed cycle by cycle on a line of PEs, and the words that arrive held against what they should be."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from wse.arrays import F32
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import Machine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.reports.terminal import plural
from wse_mappings.outcome import Outcome
from wse_mappings.schedule import LineSchedule

LARGEST_VALUE: Final = 100
"""Largest value of a word. Words are whole numbers, so that their sums have no rounding."""


def carry_out(
    schedule: LineSchedule, words: int, wafer: WaferSpec, software: SoftwareProfile, *, log: bool = False
) -> tuple[Machine, MachineRun, F32]:
    """The machine and run of the first line of a schedule, and the words ``[pes, words]`` that PEs had before it.

    Args:
        schedule: The pattern.
        words: Its words, of all parts.
        wafer: The machine.
        software: Gaps between operations, and what a relay takes.
        log: Whether every move of a wavelet is kept.

    Raises:
        BadInput: the wafer has too few colours or switch positions for it.
        Deadlock: its messages wait for each other.
    """
    machine = Machine(wafer, 1, schedule.length, words)
    lines = Lines(machine=machine, gap_cycles=software.reduce_gap_cycles, relay_cycles=software.relay_cycles)
    lines.path(schedule, [(0, col) for col in range(schedule.length)], words)
    values = np.random.default_rng(words).integers(1, LARGEST_VALUE, (schedule.length, words)).astype(np.float32)
    return machine, run(machine, values[None], log=log), values


def wrong_words(outcome: Outcome, schedule: LineSchedule, ran: MachineRun, before: F32) -> str:
    """Return the words that did not arrive as they should, in words; empty where all did."""
    memory, root = ran.memory[0], outcome.root
    expected, there = before.sum(axis=0), memory[root]
    if outcome.collective == "all_reduce":
        there = memory
    elif outcome.collective == "broadcast":
        expected, there = before[root], memory
    elif outcome.collective in ("gather", "all_gather"):
        messages, _, part = schedule.of_variant(int(schedule.variants[0, 0]))
        assert part is not None
        owner = dict(zip(part[::-1].tolist(), messages[::-1, 0].tolist(), strict=True))
        spans = np.arange(schedule.parts + 1) * before.shape[1] // schedule.parts
        expected = np.concatenate(
            [before[owner.get(i, root), a:b] for i, (a, b) in enumerate(pairwise(spans.tolist()))]
        )
        there = memory if outcome.collective == "all_gather" else memory[root]
    wrong = int((there != expected).sum())
    return f"{plural(wrong, 'word')} of {there.size:,} arrived wrong cycle by cycle" if wrong else ""
