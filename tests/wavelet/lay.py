"""One pattern on rows of a machine, and what a run of it gives."""

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
    """A machine whose rows execute one round of ``schedule``."""
    machine = WaveletMachine(wafer, rows, schedule.length, words + target)
    Lines(machine=machine, gap_cycles=gap).rows(schedule, words, target=target)
    return machine


def small_numbers(machine: WaveletMachine, seed: int = 0) -> F32:
    """Whole numbers, whose sums are exact in any order."""
    shape = (machine.rows, machine.cols, machine.memory_words)
    return np.random.default_rng(seed).integers(-99, 99, shape).astype(np.float32)


def cycles(schedule: LineSchedule, words: int, *, gap: int = 16) -> int:
    """Cycles of a pattern on one line, its timing alone."""
    return ran(schedule, words, gap=gap).cycles


def ran(schedule: LineSchedule, words: int, *, gap: int = 16) -> MachineRun:
    """A run on one line from a memory of zeros."""
    return run(on_rows(schedule, words, gap=gap))
