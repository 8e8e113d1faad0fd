"""Tests of reduce and broadcast cycles against all published logs of the WSE-2 fabric simulator.

The fabric model must match exactly, the wavelet simulator, which runs every third log, within 3 cycles. A constant is
added for the start and end of the logged program: 61 cycles for reduces, which time the program itself; 48 + 50 cycles
for broadcasts, which count the whole simulation. The gap between vector operations depends on the version of the logged
code.
"""

import pytest
from simulator_logs import logs

from tests.wavelet.line_machines import cycles as wavelet_cycles
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


def fabric_model_cycles(pattern: LineSchedule, words: int, gap: int) -> float:
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
def test_cycles_match_published_logs(
    collective: str, algorithm: str, version: str, points: int, *, by_wavelets: bool
) -> None:
    found = logs(collective, algorithm, version if algorithm == "two-phase" else "")
    assert len(found) == points
    constant = TIMED_PROGRAM_CYCLES if collective == "reduce" else SIMULATION_CYCLES
    for log in found[::3] if by_wavelets else found:
        if algorithm == "two-phase":
            pattern = two_phase(log.length, 1, Arrival.ADD, log.group)
        else:
            pattern = chain(log.length, 1, Arrival.ADD) if algorithm == "chain" else multicast(log.length, 1, 0)
        gap = GAP_CYCLES[version]
        got = constant + (
            wavelet_cycles(pattern, log.words, gap=gap) if by_wavelets else fabric_model_cycles(pattern, log.words, gap)
        )
        assert abs(got - log.cycles) <= ALLOWED_CYCLES * by_wavelets, (
            f"{log.description}: logged {log.cycles}, got {got}"
        )
