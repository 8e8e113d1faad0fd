"""What a router and a PE can be set to: tight at the limit, and refused beyond it with the place and the numbers."""

from __future__ import annotations

import pytest

from tests.wavelet.lay import WSE2
from wse.backends.wavelet.machine import Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.run import run
from wse.errors import BadInput, Deadlock


def funnel(sources: int) -> WaveletMachine:
    """A column of PEs that send a word each up one colour, the nearest first; the others' words pass it."""
    machine = WaveletMachine(WSE2, sources + 1, 1, 1)
    for pe in range(1, sources + 1):
        machine.route(pe, 3, SwitchPosition(Port.RAMP, (Port.NORTH,), controls=1))
        machine.operate(pe, 0, Operation(send=3, mark=True))
        if pe < sources:
            machine.route(pe, 3, SwitchPosition(Port.SOUTH, (Port.NORTH,)))
    machine.route(0, 3, SwitchPosition(Port.SOUTH, (Port.RAMP,)))
    return machine


def switched(positions: int) -> WaveletMachine:
    """A PE that takes one colour from the ramp ``positions`` times, each a switch position of its own."""
    machine = WaveletMachine(WSE2, 1, 2, positions)
    for _ in range(positions):
        machine.route(1, 5, SwitchPosition(Port.RAMP, (Port.WEST,), controls=1))
        machine.operate(1, 0, Operation(send=5, mark=True))
    machine.route(0, 5, SwitchPosition(Port.EAST, (Port.RAMP,)))
    machine.operate(0, 0, Operation(receive=5, words=positions))
    return machine


def busy(threads: int) -> WaveletMachine:
    """A PE that receives on so many colours at the same time from its neighbour."""
    machine = WaveletMachine(WSE2, 1, 2, threads)
    for colour in range(threads):
        machine.route(1, colour, SwitchPosition(Port.RAMP, (Port.WEST,)))
        machine.route(0, colour, SwitchPosition(Port.EAST, (Port.RAMP,)))
        machine.operate(1, 0, Operation(send=colour))
        machine.operate(0, colour, Operation(receive=colour, address=colour))
    return machine


def test_a_colour_has_so_many_switch_positions_and_no_more() -> None:
    limit = WSE2.switch_positions
    assert run(switched(limit)).hops == limit
    with pytest.raises(
        BadInput, match=rf"{limit + 1} switch positions of colour 5 on PE \(0, 1\); wse2 has {limit} per"
    ):
        run(switched(limit + 1))


def test_a_pe_has_so_many_operations_in_flight_and_no_more() -> None:
    limit = WSE2.microthreads
    assert run(busy(limit)).hops == limit
    with pytest.raises(BadInput, match=rf"{limit + 1} operations at the same time on PE \(0, 0\); wse2 has {limit}"):
        run(busy(limit + 1))


def test_senders_that_take_turns_on_a_colour_arrive_one_after_another() -> None:
    machine = funnel(3)
    machine.operate(0, 0, Operation(receive=3, words=1))
    machine.operate(0, 0, Operation(receive=3, words=1))
    machine.operate(0, 0, Operation(receive=3, words=1))
    assert run(machine).hops == 1 + 2 + 3


def test_inputs_that_coincide_on_a_colour_are_refused_with_their_place() -> None:
    """Two sides send on one colour, and no switch gives the second its turn."""
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
