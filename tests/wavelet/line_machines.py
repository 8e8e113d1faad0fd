"""Wavelet machines that execute one pattern on their rows, and runs of them."""

import numpy as np

from wse.arrays import F32
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.load import load_wafer
from wse.hardware.spec import WaferSpec
from wse_mappings.schedule import LineSchedule

WSE2 = load_wafer("wse2")
WSE3 = load_wafer("wse3")


def on_rows(
    schedule: LineSchedule, words: int, *, rows: int = 1, gap: int = 16, wafer: WaferSpec = WSE2, target: int = 0
) -> WaveletMachine:
    """Return a machine whose rows execute one round of a pattern.

    Args:
        schedule: The pattern.
        words: Number of words per message, at address 0 of every PE.
        rows: Number of rows.
        gap: Cycles between two vector operations of a thread.
        wafer: Hardware parameters.
        target: Address at which received words are stored, in words.
    """
    machine = WaveletMachine(wafer, rows, schedule.length, words + target)
    Lines(machine=machine, gap_cycles=gap).rows(schedule, words, target=target)
    return machine


def small_numbers(machine: WaveletMachine, seed: int = 0) -> F32:
    """Return random integers as float32 ``[rows, cols, words]``; their sums are exact in any order."""
    shape = (machine.rows, machine.cols, machine.memory_words)
    return np.random.default_rng(seed).integers(-99, 99, shape).astype(np.float32)


def cycles(schedule: LineSchedule, words: int, *, gap: int = 16) -> int:
    """Return the cycles of a pattern on one line."""
    return run_on_line(schedule, words, gap=gap).cycles


def run_on_line(schedule: LineSchedule, words: int, *, gap: int = 16) -> MachineRun:
    """Run a pattern on one line, on a memory of zeros."""
    return run(on_rows(schedule, words, gap=gap))
