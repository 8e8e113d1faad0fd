"""Property tests of the wavelet simulator on random multicasts: words arrive once, in order, one per link and cycle."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wavelet.line_machines import WSE2, WSE3
from wse.backends.wavelet.machine import STEP, Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.spec import WaferSpec
from wse_mappings.schedule import Arrival

Place = tuple[int, int]


@st.composite
def multicasts(draw: st.DrawFn) -> tuple[WaveletMachine, list[tuple[Place, list[Place], int]]]:
    """Draw a machine with one random multicast tree per colour.

    A receiver stores the words of colour c from address 12 * (c + 1).

    Returns:
        The machine, and for each colour (root, receivers, number of words); places are (row, column).
    """
    wafer: WaferSpec = draw(st.sampled_from([WSE2, WSE3]))
    rows, cols, max_words = draw(st.integers(1, 4)), draw(st.integers(2, 5)), 12
    colours = draw(st.integers(1, 6))
    machine = WaveletMachine(wafer, rows, cols, max_words * (colours + 1))
    sent = []
    for colour in range(colours):
        root = (draw(st.integers(0, rows - 1)), draw(st.integers(0, cols - 1)))
        words = draw(st.integers(1, max_words))
        reached: dict[Place, tuple[Port, list[Port]]] = {root: (Port.RAMP, [])}
        for _ in range(draw(st.integers(1, rows * cols + 2))):
            pe = draw(st.sampled_from(sorted(reached)))
            side = draw(st.sampled_from(sorted(STEP)))
            neighbour = (pe[0] + STEP[side][0], pe[1] + STEP[side][1])
            if neighbour not in reached and 0 <= neighbour[0] < rows and 0 <= neighbour[1] < cols:
                reached[pe][1].append(side)
                reached[neighbour] = (side.opposite, [])
        receivers = [place for place in reached if place != root and (not reached[place][1] or draw(st.booleans()))]
        if receivers:
            for place, (source, targets) in reached.items():
                ramp = [Port.RAMP] if place in receivers else []
                machine.route(machine.pe(*place), colour, SwitchPosition(source, (*targets, *ramp)))
            machine.operate(machine.pe(*root), 0, Operation(send=colour, address=0, words=words, gap_cycles=3))
            for place in receivers:
                address = max_words * (colour + 1)
                machine.operate(machine.pe(*place), 1 + colour, Operation(receive=colour, address=address, words=words))
            sent.append((root, receivers, words))
        else:
            sent.append((root, [], 0))
    return machine, sent


def distinct_numbers(machine: WaveletMachine) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return a memory ``[rows, cols, words]`` in which every word has another value."""
    shape = (machine.rows, machine.cols, machine.memory_words)
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@given(multicasts())
@settings(max_examples=15, deadline=None)
def test_words_arrive_once_and_in_order(case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]]) -> None:
    machine, sent = case
    memory = distinct_numbers(machine)
    result = run(machine, memory)  # raises an error if an operation does not end or a queue is not empty
    expected = memory.copy()
    for colour, (root, receivers, words) in enumerate(sent):
        for place in receivers:
            expected[place][12 * (colour + 1) :][:words] = memory[root][:words]
    np.testing.assert_array_equal(result.memory, expected)


@given(multicasts())
@settings(max_examples=12, deadline=None)
def test_link_carries_at_most_one_wavelet_per_cycle(
    case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]],
) -> None:
    machine, _ = case
    result = run(machine, log=True)
    cycle, row, col, _, side, _ = result.moves.T
    wavelets_per_cycle = Counter(zip(cycle.tolist(), row.tolist(), col.tolist(), side.tolist(), strict=True))
    assert max(wavelets_per_cycle.values(), default=0) <= 1
    assert (np.diff(cycle) >= 0).all()
    words = np.zeros_like(result.link_words)
    on_links = side < Port.RAMP
    np.add.at(words, (side[on_links], row[on_links], col[on_links]), 1)
    np.testing.assert_array_equal(words, result.link_words)
    links = sum(
        operation_words(machine, routed.colour) * sum(target != Port.RAMP for target in routed.position.targets)
        for routed in machine.route_blocks
    )
    assert result.hops == links


def operation_words(machine: WaveletMachine, colour: int) -> int:
    """Return the number of words that are sent on a colour."""
    return next(each.operation.words for each in machine.operation_blocks if each.operation.send == colour)


def assert_equal_runs(one: MachineRun, other: MachineRun) -> None:
    assert one.cycles == other.cycles
    for name in ("pe_cycles", "op_times", "memory", "link_words"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@given(multicasts(), st.integers(0, 2**16))
@settings(max_examples=12, deadline=None)
def test_result_does_not_depend_on_the_order_of_queues(
    case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]], seed: int
) -> None:
    machine, _ = case
    memory = distinct_numbers(machine)
    plain = run(machine, memory)
    assert_equal_runs(plain, run(machine, memory, shuffle=seed))


@pytest.mark.parametrize(("colours", "words"), [(8, 1), (2, 50), (8, 50)])
def test_colours_share_a_link_round_robin(colours: int, words: int) -> None:
    """Streams of several PEs share the last link. It is hardly ever idle, and the colours alternate on it."""
    machine = WaveletMachine(WSE2, 1, colours + 1, colours * words)
    for colour in range(colours):
        machine.route(colour, colour, SwitchPosition(Port.RAMP, (Port.EAST,)))
        for pe in range(colour + 1, colours):
            machine.route(pe, colour, SwitchPosition(Port.WEST, (Port.EAST,)))
        machine.route(colours, colour, SwitchPosition(Port.WEST, (Port.RAMP,)))
        machine.operate(colour, 0, Operation(send=colour, words=words))
        machine.operate(
            colours, colour, Operation(receive=colour, arrival=Arrival.REPLACE, address=colour * words, words=words)
        )
    moves = run(machine, log=True).moves
    last = moves[(moves[:, 2] == colours - 1) & (moves[:, 4] == Port.EAST)]
    assert len(last) == colours * words
    assert last[-1, 0] - last[0, 0] < colours * words + 2 * colours
    turns = last[last[:, 0] > last[0, 0] + 4 * colours][: 2 * colours, 3]
    if words > 1:
        assert np.array_equal(turns[:colours], turns[colours:])
        assert len(set(turns[:colours].tolist())) == colours
