"""Every published cycle log of reduces and broadcasts in the WSE-2 fabric simulator: by the fabric model exactly, by
wavelets within 3 cycles.

What a log has beyond them is one constant for start and finish of a timed program, the same for all rows: 61 cycles;
for broadcasts, which count a whole simulation of an untimed program, 48 before the program starts and 50 before the
simulator stops. The gap between vector operations is the software profile's, one for each code version.
"""

from __future__ import annotations

import pytest
from simulator_logs import logs

from tests.wavelet.lay import cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.hardware.load import load_wafer
from wse.studies.validate.measured.algorithms import SIMULATION_CYCLES, TIMED_PROGRAM_CYCLES
from wse.studies.validate.measured.platforms import GAP_CYCLES
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

WSE2 = load_wafer("wse2")
ALLOWED_CYCLES = 3


def fast(pattern: LineSchedule, words: int, gap: int) -> float:
    return line_cycles(pattern.messages, words, LineCosts.of(WSE2, gap), pattern.message_colours).total


@pytest.mark.parametrize(
    ("collective", "algorithm", "version", "points", "by_wavelets"),
    [
        ("reduce", "chain", "second", 15, False),
        ("reduce", "chain", "second", 15, True),
        ("reduce", "two-phase", "first", 14, False),
        ("reduce", "two-phase", "second", 3, False),
        ("reduce", "two-phase", "second", 3, True),
        ("broadcast", "flooding multicast", "second", 7, False),
        ("broadcast", "flooding multicast", "second", 7, True),
    ],
)
def test_published_cycles(collective: str, algorithm: str, version: str, points: int, *, by_wavelets: bool) -> None:
    found = logs(collective, algorithm, version if algorithm == "two-phase" else "")
    assert len(found) == points
    constant = TIMED_PROGRAM_CYCLES if collective == "reduce" else SIMULATION_CYCLES
    for log in found:
        if algorithm == "two-phase":
            pattern = two_phase(log.length, 1, Arrival.ADD, log.group)
        else:
            pattern = chain(log.length, 1, Arrival.ADD) if algorithm == "chain" else multicast(log.length, 1, 0)
        gap = GAP_CYCLES[version]
        got = constant + (cycles(pattern, log.words, gap=gap) if by_wavelets else fast(pattern, log.words, gap))
        assert abs(got - log.cycles) <= ALLOWED_CYCLES * by_wavelets, f"{log.told}: logged {log.cycles}, got {got}"
