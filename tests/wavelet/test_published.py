"""The cycle counts that the vendor's simulator of WSE-2 printed, each within 3 cycles, from one set of constants.

Constants: those of the preset, 61 cycles of start and finish of a timed program, and a launch gap for each of the two
code versions, 52 and 16 cycles (the profiles ``academic`` and ``tuned``). The broadcast rows count a whole simulation
of an untimed program: 48 cycles before the program starts and 50 idle ones before the simulator stops.
"""

from __future__ import annotations

import pytest
from simulator_logs import Log, logs

from tests.wavelet.lay import cycles
from wse.studies.validate.measured.versions import GAP_CYCLES
from wse.studies.validate.measured.windows import SIMULATION_CYCLES, TIMED_PROGRAM_CYCLES
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival

ALLOWED_CYCLES = 3


def check(log: Log, predicted: int) -> None:
    deviation = predicted - log.cycles
    assert abs(deviation) <= ALLOWED_CYCLES, (
        f"{log.told}: measured {log.cycles}, predicted {predicted}, off by {deviation}"
    )


def test_chain_reduce() -> None:
    found = logs("reduce", "chain")
    assert len(found) == 15
    for log in found:
        check(log, cycles(chain(log.length, 1, Arrival.ADD), log.words) + TIMED_PROGRAM_CYCLES)


@pytest.mark.parametrize(("version", "points"), [pytest.param("first", 14, marks=pytest.mark.slow), ("second", 3)])
def test_two_phase_reduce(version: str, points: int) -> None:
    found = logs("reduce", "two-phase", version)
    assert len(found) == points
    for log in found:
        pattern = two_phase(log.length, 1, Arrival.ADD, log.group)
        check(log, cycles(pattern, log.words, gap=GAP_CYCLES[version]) + TIMED_PROGRAM_CYCLES)


def test_flooding_broadcast() -> None:
    found = logs("broadcast", "flooding multicast")
    assert len(found) == 7
    for log in found:
        check(log, cycles(multicast(log.length, 1, 0), log.words) + SIMULATION_CYCLES)
