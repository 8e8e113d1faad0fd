"""Tests of reduce and broadcast cycles of the wavelet simulator against published logs of the WSE-2 fabric simulator.

Every third log is simulated; the difference is at most 3 cycles. (That the fabric model matches all logs exactly is
tested with all other predictions, in tests/validation.) A constant is added for the start and end of the logged
program: 61 cycles for reduces, which time the program itself; 48 + 50 cycles for broadcasts, which count the whole
simulation. The gap between vector operations depends on the version of the logged code.
"""

import pytest
from simulator_logs import logs

from tests.wavelet.line_machines import cycles
from wse.studies.validate.measured.platforms import GAP_CYCLES, SIMULATION_CYCLES, TIMED_PROGRAM_CYCLES
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival

ALLOWED_CYCLES = 3


@pytest.mark.parametrize(
    ("collective", "algorithm", "points"),
    [("reduce", "chain", 15), ("reduce", "two-phase", 3), ("broadcast", "flooding multicast", 7)],
)
def test_cycles_match_published_logs(collective: str, algorithm: str, points: int) -> None:
    found = logs(collective, algorithm, "second" if algorithm == "two-phase" else "")
    assert len(found) == points
    constant = TIMED_PROGRAM_CYCLES if collective == "reduce" else SIMULATION_CYCLES
    for log in found[::3]:
        if algorithm == "two-phase":
            pattern = two_phase(log.length, 1, Arrival.ADD, log.group)
        else:
            pattern = chain(log.length, 1, Arrival.ADD) if algorithm == "chain" else multicast(log.length, 1, 0)
        got = constant + cycles(pattern, log.words, gap=GAP_CYCLES["second"])
        assert abs(got - log.cycles) <= ALLOWED_CYCLES, f"{log.description}: logged {log.cycles}, got {got}"
