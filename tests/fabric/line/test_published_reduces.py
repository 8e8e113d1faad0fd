"""The recurrence against every published cycle log of reduces and broadcasts in the WSE-2 fabric simulator, exactly.

What a log has beyond the recurrence is one constant for start and finish of a timed program, the same for all rows; the
gap between vector operations is the software profile's, one for each code version.
"""

from __future__ import annotations

import pytest
from simulator_logs import Log, logs

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.hardware.load import load_wafer
from wse.studies.validate.measured.versions import GAP_CYCLES
from wse.studies.validate.measured.windows import SIMULATION_CYCLES, TIMED_PROGRAM_CYCLES
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

WSE2 = load_wafer("wse2")


def check(log: Log, pattern: LineSchedule, constant: int, version: str = "second") -> None:
    costs = LineCosts.of(WSE2, GAP_CYCLES[version])
    got = line_cycles(pattern.messages, log.words, costs, pattern.message_colours).total + constant
    assert got == log.cycles, f"{log.told}: logged {log.cycles}, got {got}"


def test_chain_reduces() -> None:
    found = logs("reduce", "chain")
    assert len(found) == 15
    for log in found:
        check(log, chain(log.length, 1, Arrival.ADD), TIMED_PROGRAM_CYCLES)


@pytest.mark.parametrize(("version", "points"), [("first", 14), ("second", 3)])
def test_two_phase_reduces(version: str, points: int) -> None:
    found = logs("reduce", "two-phase", version)
    assert len(found) == points
    for log in found:
        check(log, two_phase(log.length, 1, Arrival.ADD, log.group), TIMED_PROGRAM_CYCLES, version)


def test_broadcasts() -> None:
    found = logs("broadcast", "flooding multicast")
    assert len(found) == 7
    for log in found:
        check(log, multicast(log.length, 1, 0), SIMULATION_CYCLES)
