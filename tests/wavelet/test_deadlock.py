"""What can never finish is reported on one line, with the PEs and colours that wait for each other; so is bad input."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.wavelet.lay import WSE2, on_rows
from wse.backends.wavelet.machine import LARGEST_PES, Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.run import run
from wse.errors import BadInput, BadMesh, Deadlock
from wse_mappings.patterns.chain import chain
from wse_mappings.schedule import Arrival

WORDS = 40


def ring_of_two() -> WaveletMachine:
    """Two PEs that send each other more than the queues hold before either receives."""
    machine = WaveletMachine(WSE2, 1, 2, WORDS)
    for pe, side, colour in ((0, Port.EAST, 0), (1, Port.WEST, 1)):
        machine.route(pe, colour, SwitchPosition(Port.RAMP, (side,)))
        machine.route(pe, 1 - colour, SwitchPosition(side, (Port.RAMP,)))
        machine.operate(pe, 0, Operation(send=colour, words=WORDS))
        machine.operate(pe, 0, Operation(receive=1 - colour, words=WORDS))
    return machine


def test_a_ring_of_full_queues_is_describe() -> None:
    with pytest.raises(Deadlock) as caught:
        run(ring_of_two())
    told = str(caught.value)
    assert "wait for each other in a cycle" in told
    for part in ("PE (0, 0) colour 0", "PE (0, 0) colour 1", "PE (0, 1) colour 0", "PE (0, 1) colour 1"):
        assert part in told
    assert "\n" not in told


def test_a_receive_that_nobody_feeds_is_describe() -> None:
    machine = on_rows(chain(3, 1, Arrival.ADD), 4)
    machine.operate(0, 0, Operation(receive=1, words=1))
    with pytest.raises(Deadlock, match=r"PE \(0, 0\) colour 1 .* nobody sends \(1 operations unfinished"):
        run(machine)


def test_words_that_nobody_receives_are_describe() -> None:
    machine = on_rows(chain(2, 1, Arrival.ADD), 4)
    machine.operate(1, 0, Operation(send=1, words=2))
    with pytest.raises(Deadlock, match="no operation receives"):
        run(machine)


def test_a_region_too_large_is_refused_with_its_size_and_the_limit() -> None:
    with pytest.raises(BadMesh, match=rf"1000x1000 PEs with 1 words .* 1,000,000 PEs .* at most {LARGEST_PES:,}"):
        WaveletMachine(WSE2, 1000, 1000, 1)
    with pytest.raises(BadMesh, match="empty"):
        WaveletMachine(WSE2, 0, 4, 1)


def test_a_queue_deeper_than_the_kernel_holds_is_refused() -> None:
    with pytest.raises(BadInput, match="router_queue_words = 7"):
        WaveletMachine(dataclasses.replace(WSE2, router_queue_words=7), 1, 2, 1)


def test_routes_and_operations_that_cannot_be_are_refused() -> None:
    machine = WaveletMachine(WSE2, 1, 2, 4)
    with pytest.raises(BadInput, match="colour 21 on PE"):
        machine.route(0, 21, SwitchPosition(Port.RAMP, (Port.EAST,)))
    with pytest.raises(BadInput, match="words 2 to 6 of PE"):
        machine.operate(0, 0, Operation(send=0, address=2, words=4))
    machine.route(0, 0, SwitchPosition(Port.RAMP, (Port.EAST,)))
    with pytest.raises(BadInput, match=r"sends colour 0 east, to PE \(0, 1\), which takes none"):
        run(machine)
    beyond = WaveletMachine(WSE2, 1, 2, 4)
    beyond.route(1, 0, SwitchPosition(Port.RAMP, (Port.EAST,)))
    with pytest.raises(BadInput, match="beyond the edge"):
        run(beyond)
    mute = WaveletMachine(WSE2, 1, 2, 4)
    mute.operate(0, 0, Operation(send=3))
    with pytest.raises(BadInput, match="sends on colour 3, which has no such route"):
        run(mute)
    with pytest.raises(BadInput, match="memory of shape"):
        run(on_rows(chain(2, 1, Arrival.ADD), 4), np.zeros((1, 2, 3), np.float32))
