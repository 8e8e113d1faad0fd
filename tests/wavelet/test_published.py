"""The cycle counts that the vendor's simulator of WSE-2 printed, each within 3 cycles, from one set of constants.

Constants: those of the preset, 61 cycles of start and finish of a timed program, and a launch gap for each of the two
code versions, 52 and 16 cycles (the profiles ``academic`` and ``tuned``). The broadcast rows count a whole simulation
of an untimed program: 48 cycles before the program starts and 50 idle ones before the simulator stops.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from tests.wavelet.lay import cycles, on_rows, small_numbers
from wse.hardware.load import load_software
from wse.wavelet.machine import TIMED_PROGRAM_CYCLES
from wse.wavelet.run import run
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

ALLOWED_CYCLES = 3
SIMULATION_CYCLES = 48 + 50
GAPS = {"first": load_software("academic").reduce_gap_cycles, "second": load_software("tuned").reduce_gap_cycles}


def rows(shared: Path, kernel: str, algorithm: str) -> list[dict[str, str]]:
    """The simulator's rows of one algorithm."""
    with (shared / "reference" / "wse_microbench.csv").open() as file:
        return [
            row
            for row in csv.DictReader(file)
            if row["platform"].startswith("WSE-2 SDK fabric simulator")
            and row["kernel"] == kernel
            and row["algorithm"].startswith(algorithm)
        ]


def check(row: dict[str, str], predicted: int) -> None:
    measured = int(row["value"])
    deviation = predicted - measured
    told = f"{row['algorithm']} over {row['grid_w']} PEs, {row['vector_len_bytes']} bytes"
    assert abs(deviation) <= ALLOWED_CYCLES, f"{told}: measured {measured}, predicted {predicted}, off by {deviation}"


def test_chain_reduce(shared: Path) -> None:
    found = rows(shared, "reduce", "chain")
    assert len(found) == 15
    for row in found:
        length, words = int(row["grid_w"]), int(row["vector_len_bytes"]) // 4
        check(row, cycles(chain(length, 1, Arrival.ADD), words) + TIMED_PROGRAM_CYCLES)


@pytest.mark.parametrize(("version", "points"), [("first", 14), ("second", 3)])
def test_two_phase_reduce(shared: Path, version: str, points: int) -> None:
    found = [row for row in rows(shared, "reduce", "two-phase") if f"({version} code version)" in row["algorithm"]]
    assert len(found) == points
    for row in found:
        group = int(re.findall(r"S=(\d+)", row["algorithm"])[0])
        pattern = two_phase(int(row["grid_w"]), 1, Arrival.ADD, group)
        words = int(row["vector_len_bytes"]) // 4
        check(row, cycles(pattern, words, gap=GAPS[version]) + TIMED_PROGRAM_CYCLES)


def test_flooding_broadcast(shared: Path) -> None:
    found = rows(shared, "broadcast", "flooding multicast")
    assert len(found) == 7
    for row in found:
        check(row, cycles(multicast(int(row["grid_w"]), 1, 0), 1) + SIMULATION_CYCLES)


@pytest.mark.parametrize("pattern", [chain(40, 1, Arrival.ADD), two_phase(40, 1, Arrival.ADD, 8)])
def test_the_reduces_give_the_sum(pattern: LineSchedule) -> None:
    machine = on_rows(pattern, 9)
    memory = small_numbers(machine)
    assert np.array_equal(run(machine, memory).memory[0, 0], memory[0].sum(axis=0))
