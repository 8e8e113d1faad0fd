"""The recurrence against every published cycle log of reduces and broadcasts in the WSE-2 fabric simulator.

Source of the logs: github.com/pr0f3ss/SpMM_Cerebras. What a log has beyond the recurrence is one constant for start and
finish of a timed program, the same for all rows; the gap between vector operations is the software profile's.
"""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from wse.fabric.line_time import LineCosts, line_cycles
from wse.hardware.load import load_software, load_wafer
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import Arrival

START_AND_FINISH = 61
IDLE_AND_START_UP = 50 + 48  # of the whole-simulation counts of the broadcast logs
WSE2 = load_wafer("wse2")


def logs(shared: Path, kernel: str, algorithm: str) -> list[tuple[str, int, int, int]]:
    """(algorithm, PEs, words, cycles) of each row of the simulator's logs."""
    with (shared / "reference" / "wse_microbench.csv").open(encoding="utf-8") as file:
        rows = [
            (row["algorithm"], int(row["grid_w"]), int(row["vector_len_bytes"]) // 4, int(row["value"]))
            for row in csv.DictReader(file)
            if row["platform"].startswith("WSE-2 SDK fabric simulator")
            and row["kernel"] == kernel
            and row["algorithm"].startswith(algorithm)
        ]
    assert rows
    return rows


def costs(software: str) -> LineCosts:
    return LineCosts(
        hop=WSE2.hop_cycles,
        ramp=WSE2.ramp_cycles,
        gap=load_software(software).reduce_gap_cycles,
        words_per_cycle=WSE2.stream_words_per_cycle,
    )


def two_phase(length: int, group: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Chains toward the west inside each group, counted from the east end; then a chain of the groups' heads."""
    heads = [pe for pe in range(length - 1, -1, -1) if (length - 1 - pe) % group == group - 1]
    messages = []
    for head in heads:
        messages += [(pe, pe - 1, Arrival.ADD) for pe in range(head + group - 1, head, -1)]
    messages += [(a, b, Arrival.ADD) for a, b in pairwise(heads)]
    return np.array(messages, np.int32)


def test_chain_reduces_are_exact(shared: Path) -> None:
    for _, length, words, logged in logs(shared, "reduce", "chain"):
        messages = np.array([(pe, pe - 1, Arrival.ADD) for pe in range(length - 1, 0, -1)], np.int32)
        got = line_cycles(messages, words, costs("tuned")).total + START_AND_FINISH
        assert got == logged, f"{length} PEs, {words} words: logged {logged}, got {got}"


@pytest.mark.parametrize(("version", "software"), [("first", "academic"), ("second", "tuned")])
def test_two_phase_reduces_are_exact_with_one_gap_for_each_code_version(
    shared: Path, version: str, software: str
) -> None:
    seen = 0
    for algorithm, length, words, logged in logs(shared, "reduce", "two-phase"):
        if version not in algorithm:
            continue
        group = int(re.findall(r"S=(\d+)", algorithm)[0])
        got = line_cycles(two_phase(length, group), words, costs(software)).total + START_AND_FINISH
        assert got == logged, f"S = {group}, {words} words: logged {logged}, got {got}"
        seen += 1
    assert seen == {"first": 14, "second": 3}[version]


def test_broadcasts_are_exact(shared: Path) -> None:
    for _, length, words, logged in logs(shared, "broadcast", "flooding"):
        got = line_cycles(multicast(length, 1, 0).messages, words, costs("tuned")).total + IDLE_AND_START_UP
        assert got == logged, f"{length} PEs: logged {logged}, got {got}"
