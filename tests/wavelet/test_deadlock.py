"""Tests of deadlocks: messages of the wavelet simulator, refused machines, and predictions of `find_stall`."""

import dataclasses

import numpy as np
import pytest

from tests.wavelet.line_machines import WSE2, on_rows
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import LARGEST_PES, Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.plan import Plan, plan_line
from wse.backends.wavelet.run import run
from wse.backends.wavelet.stalls import find_stall
from wse.errors import BadInput, BadMesh, Deadlock
from wse.hardware.load import load_wafer
from wse.program.line_patterns import known_line_patterns, named_pattern
from wse_mappings.patterns.chain import chain
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

WORDS = 40


def exchange_with_full_queues() -> WaveletMachine:
    """Return a machine with two PEs that send each other more words than the queues can store before they receive."""
    machine = WaveletMachine(WSE2, 1, 2, WORDS)
    for pe, side, colour in ((0, Port.EAST, 0), (1, Port.WEST, 1)):
        machine.route(pe, colour, SwitchPosition(Port.RAMP, (side,)))
        machine.route(pe, 1 - colour, SwitchPosition(side, (Port.RAMP,)))
        machine.operate(pe, 0, Operation(send=colour, words=WORDS))
        machine.operate(pe, 0, Operation(receive=1 - colour, words=WORDS))
    return machine


def test_deadlock_message_names_all_full_queues() -> None:
    with pytest.raises(Deadlock) as caught:
        run(exchange_with_full_queues())
    message = str(caught.value)
    assert "wait for each other in a cycle" in message
    for part in ("PE (0, 0) colour 0", "PE (0, 0) colour 1", "PE (0, 1) colour 0", "PE (0, 1) colour 1"):
        assert part in message
    assert "\n" not in message


def test_deadlock_message_names_a_receive_without_sender() -> None:
    machine = on_rows(chain(3, 1, Arrival.ADD), 4)
    machine.operate(0, 0, Operation(receive=1, words=1))
    with pytest.raises(Deadlock, match=r"PE \(0, 0\) colour 1 .* nobody sends \(1 operations unfinished"):
        run(machine)


def test_deadlock_message_names_words_without_receiver() -> None:
    machine = on_rows(chain(2, 1, Arrival.ADD), 4)
    machine.operate(1, 0, Operation(send=1, words=2))
    with pytest.raises(Deadlock, match="no operation receives"):
        run(machine)


def test_machine_refuses_empty_and_too_large_regions() -> None:
    with pytest.raises(BadMesh, match=rf"1000x1000 PEs with 1 words .* 1,000,000 PEs .* at most {LARGEST_PES:,}"):
        WaveletMachine(WSE2, 1000, 1000, 1)
    with pytest.raises(BadMesh, match="empty"):
        WaveletMachine(WSE2, 0, 4, 1)


def test_machine_refuses_queues_deeper_than_the_kernel_supports() -> None:
    with pytest.raises(BadInput, match="router_queue_words = 7"):
        WaveletMachine(dataclasses.replace(WSE2, router_queue_words=7), 1, 2, 1)


def test_invalid_routes_and_operations_are_refused() -> None:
    machine = WaveletMachine(WSE2, 1, 2, 4)
    with pytest.raises(BadInput, match="colour 21 on PE"):
        machine.route(0, 21, SwitchPosition(Port.RAMP, (Port.EAST,)))
    with pytest.raises(BadInput, match="words 2 to 6 of PE"):
        machine.operate(0, 0, Operation(send=0, address=2, words=4))
    machine.route(0, 0, SwitchPosition(Port.RAMP, (Port.EAST,)))
    with pytest.raises(BadInput, match=r"sends colour 0 east, to PE \(0, 1\), which takes none"):
        run(machine)
    over_the_edge = WaveletMachine(WSE2, 1, 2, 4)
    over_the_edge.route(1, 0, SwitchPosition(Port.RAMP, (Port.EAST,)))
    with pytest.raises(BadInput, match="beyond the edge"):
        run(over_the_edge)
    without_route = WaveletMachine(WSE2, 1, 2, 4)
    without_route.operate(0, 0, Operation(send=3))
    with pytest.raises(BadInput, match="sends on colour 3, which has no such route"):
        run(without_route)
    with pytest.raises(BadInput, match="memory of shape"):
        run(on_rows(chain(2, 1, Arrival.ADD), 4), np.zeros((1, 2, 3), np.float32))


def switched_sender(positions: int) -> WaveletMachine:
    """Return a machine with a PE that sends ``positions`` words on one colour, each with its own switch position."""
    machine = WaveletMachine(WSE2, 1, 2, positions)
    for _ in range(positions):
        machine.route(1, 5, SwitchPosition(Port.RAMP, (Port.WEST,), controls=1))
        machine.operate(1, 0, Operation(send=5, mark=True))
    machine.route(0, 5, SwitchPosition(Port.EAST, (Port.RAMP,)))
    machine.operate(0, 0, Operation(receive=5, words=positions))
    return machine


def parallel_receiver(threads: int) -> WaveletMachine:
    """Return a machine with a PE that receives from its neighbour on ``threads`` colours at the same time."""
    machine = WaveletMachine(WSE2, 1, 2, threads)
    for colour in range(threads):
        machine.route(1, colour, SwitchPosition(Port.RAMP, (Port.WEST,)))
        machine.route(0, colour, SwitchPosition(Port.EAST, (Port.RAMP,)))
        machine.operate(1, 0, Operation(send=colour))
        machine.operate(0, colour, Operation(receive=colour, address=colour))
    return machine


def test_switch_positions_per_colour_are_limited() -> None:
    limit = WSE2.switch_positions
    assert run(switched_sender(limit)).hops == limit
    with pytest.raises(
        BadInput, match=rf"{limit + 1} switch positions of colour 5 on PE \(0, 1\); wse2 has {limit} per"
    ):
        run(switched_sender(limit + 1))


def test_operations_in_flight_per_pe_are_limited() -> None:
    limit = WSE2.microthreads
    assert run(parallel_receiver(limit)).hops == limit
    with pytest.raises(BadInput, match=rf"{limit + 1} operations at the same time on PE \(0, 0\); wse2 has {limit}"):
        run(parallel_receiver(limit + 1))


def test_deadlock_message_names_a_colour_with_two_inputs() -> None:
    """Two neighbours send on one colour, and no control bit switches from the first to the second."""
    machine = WaveletMachine(WSE2, 1, 3, 1)
    machine.route(0, 3, SwitchPosition(Port.RAMP, (Port.EAST,)))
    machine.route(2, 3, SwitchPosition(Port.RAMP, (Port.WEST,)))
    machine.route(1, 3, SwitchPosition(Port.WEST, (Port.RAMP,)))
    machine.route(1, 3, SwitchPosition(Port.EAST, (Port.RAMP,)))
    for pe in (0, 2):
        machine.operate(pe, 0, Operation(send=3))
    for _ in range(2):
        machine.operate(1, 0, Operation(receive=3))
    with pytest.raises(Deadlock, match=r"PE \(0, 1\) colour 3"):
        run(machine)


WAFER = load_wafer("wse2")
LONG = 200
"""Number of words in a message that is longer than all queues on its path together."""


def plan_of(schedule: LineSchedule) -> Plan:
    """Plan the colours and operations of the first line of a pattern."""
    messages, colours, part = schedule.variant_messages(0)
    return plan_line(messages, colours, part)


def deadlocks(schedule: LineSchedule) -> bool:
    """Return whether the simulator deadlocks, or refuses a colour that two threads of a PE read."""
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
    """Return a pattern of random messages and colours; most messages are added at their target."""
    length = int(rng.integers(3, 8))
    messages = []
    for _ in range(int(rng.integers(2, 8))):
        source, target = rng.permutation(length)[:2].tolist()
        arrival = Arrival.ADD if rng.random() < 0.85 else Arrival.REPLACE
        messages.append((source, target, arrival))
    colours = rng.integers(0, 4, len(messages)).tolist() if rng.random() < 0.8 else None
    return uniform_schedule("random", length, 1, messages, 4, message_colours=colours)


def test_find_stall_agrees_with_the_simulator() -> None:
    rng = np.random.default_rng(1)
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
def test_find_stall_finds_none_in_the_included_patterns(name: str) -> None:
    for length in (2, 7, 33):
        assert find_stall(plan_of(named_pattern(name).make(length, 16, 5))) == ""


def test_find_stall_names_the_messages_of_a_circular_wait() -> None:
    messages = [(2, 6, Arrival.ADD), (1, 5, Arrival.REPLACE), (6, 5, Arrival.ADD)]
    schedule = uniform_schedule("mine", 7, 1, messages, 3, message_colours=[2, 2, 0])
    stall = find_stall(plan_of(schedule))
    assert stall.startswith("messages wait in a circle: ")
    assert "1 to 5 on colour 2" in stall
    assert deadlocks(schedule)


def test_find_stall_names_a_colour_with_two_uses_on_a_pe() -> None:
    messages = [(2, 1, Arrival.ADD), (3, 1, Arrival.REPLACE)]
    stall = find_stall(plan_of(uniform_schedule("mine", 4, 1, messages, 1, message_colours=[0, 0])))
    assert stall == "PE 1 adds some words of colour 0 and stores others; give these two colours"
