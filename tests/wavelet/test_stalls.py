"""Messages that wait for each other in a circle: found without a run where the cycle-by-cycle reference deadlocks."""

from __future__ import annotations

import numpy as np
import pytest

from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.plan import Plan, plan_line
from wse.backends.wavelet.run import run
from wse.backends.wavelet.stalls import find_stall
from wse.errors import BadInput, Deadlock
from wse.hardware.load import load_wafer
from wse.program.line_patterns import known_line_patterns, named_pattern
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

WAFER = load_wafer("wse2")
LONG = 200
"""Words of a message that no queues in transit hold."""


def plan_of(schedule: LineSchedule) -> Plan:
    messages, colours, part = schedule.variant_messages(0)
    return plan_line(messages, colours, part)


def deadlocks(schedule: LineSchedule) -> bool:
    """Whether the reference stops, or refuses a colour that two threads of a PE read."""
    machine = WaveletMachine(WAFER, 1, schedule.length, LONG)
    Lines(machine=machine, gap_cycles=10).rows(schedule, LONG)
    try:
        run(machine)
    except Deadlock:
        return True
    except BadInput as error:
        if "two threads" not in str(error):
            raise
        return True
    return False


def random_schedule(rng: np.random.Generator) -> LineSchedule:
    """Messages and colours at random, most of them to be added."""
    length = int(rng.integers(3, 8))
    messages = []
    for _ in range(int(rng.integers(2, 8))):
        source, target = rng.permutation(length)[:2].tolist()
        arrival = Arrival.ADD if rng.random() < 0.85 else Arrival.REPLACE
        messages.append((source, target, arrival))
    colours = rng.integers(0, 4, len(messages)).tolist() if rng.random() < 0.8 else None
    return uniform_schedule("random", length, 1, messages, 4, message_colours=colours)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_what_stalls_is_what_deadlocks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stalled = 0
    for _ in range(120):
        schedule = random_schedule(rng)
        plan = plan_of(schedule)
        if any(len(positions) > WAFER.switch_positions for positions in plan.positions.values()):
            continue
        stall = find_stall(plan)
        stalled += bool(stall)
        assert bool(stall) == deadlocks(schedule), (stall, schedule.messages.tolist(), schedule.message_colours)
    assert 20 < stalled < 100


@pytest.mark.parametrize("name", known_line_patterns())
def test_no_bundled_pattern_stalls(name: str) -> None:
    for length in (2, 7, 33):
        assert find_stall(plan_of(named_pattern(name).make(length, 16, 5))) == ""


def test_a_circle_is_told_with_its_messages() -> None:
    """PE 2 adds what PE 0 sends and passes it to PE 1, which gets the words of PE 0 first, on the colour behind."""
    messages = [(2, 6, Arrival.ADD), (1, 5, Arrival.REPLACE), (6, 5, Arrival.ADD)]
    schedule = uniform_schedule("mine", 7, 1, messages, 3, message_colours=[2, 2, 0])
    stall = find_stall(plan_of(schedule))
    assert stall.startswith("messages wait in a circle: ")
    assert "1 to 5 on colour 2" in stall
    assert deadlocks(schedule)


def test_a_colour_with_two_uses_on_a_pe_is_told() -> None:
    messages = [(2, 1, Arrival.ADD), (3, 1, Arrival.REPLACE)]
    stall = find_stall(plan_of(uniform_schedule("mine", 4, 1, messages, 1, message_colours=[0, 0])))
    assert stall == "PE 1 adds some words of colour 0 and stores others; give these two colours"
