"""What holds on every machine: no word lost or doubled, order kept, links shared in turn, nothing left over."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wavelet.lay import WSE2, WSE3
from wse.backends.wavelet.machine import STEP, Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.run import MachineRun, run
from wse.hardware.spec import WaferSpec
from wse_mappings.schedule import Arrival

Place = tuple[int, int]


@st.composite
def multicasts(draw: st.DrawFn) -> tuple[WaveletMachine, list[tuple[Place, list[Place], int]]]:
    """Random trees of routes, one a colour, with random lengths; each PE stores what it receives by colour."""
    wafer: WaferSpec = draw(st.sampled_from([WSE2, WSE3]))
    rows, cols, most = draw(st.integers(1, 4)), draw(st.integers(2, 5)), 12
    colours = draw(st.integers(1, 6))
    machine = WaveletMachine(wafer, rows, cols, most * (colours + 1))
    sent = []
    for colour in range(colours):
        root = (draw(st.integers(0, rows - 1)), draw(st.integers(0, cols - 1)))
        words = draw(st.integers(1, most))
        reached: dict[Place, tuple[Port, list[Port]]] = {root: (Port.RAMP, [])}
        for _ in range(draw(st.integers(1, rows * cols + 2))):
            here = draw(st.sampled_from(sorted(reached)))
            side = draw(st.sampled_from(sorted(STEP)))
            there = (here[0] + STEP[side][0], here[1] + STEP[side][1])
            if there not in reached and 0 <= there[0] < rows and 0 <= there[1] < cols:
                reached[here][1].append(side)
                reached[there] = (side.opposite, [])
        receivers = [place for place in reached if place != root and (not reached[place][1] or draw(st.booleans()))]
        if receivers:
            for place, (source, targets) in reached.items():
                ramp = [Port.RAMP] if place in receivers else []
                machine.route(machine.pe(*place), colour, SwitchPosition(source, (*targets, *ramp)))
            machine.operate(machine.pe(*root), 0, Operation(send=colour, address=0, words=words, gap_cycles=3))
            for place in receivers:
                address = most * (colour + 1)
                machine.operate(machine.pe(*place), 1 + colour, Operation(receive=colour, address=address, words=words))
            sent.append((root, receivers, words))
        else:
            sent.append((root, [], 0))
    return machine, sent


def distinct(machine: WaveletMachine) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    shape = (machine.rows, machine.cols, machine.memory_words)
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@given(multicasts())
@settings(max_examples=15, deadline=None)
def test_words_arrive_once_in_order_and_all(case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]]) -> None:
    machine, sent = case
    memory = distinct(machine)
    result = run(machine, memory)  # raises where an operation does not end or a queue is not empty
    expected = memory.copy()
    for colour, (root, receivers, words) in enumerate(sent):
        for place in receivers:
            expected[place][12 * (colour + 1) :][:words] = memory[root][:words]
    np.testing.assert_array_equal(result.memory, expected)


@given(multicasts())
@settings(max_examples=12, deadline=None)
def test_a_link_carries_one_wavelet_a_cycle(case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]]) -> None:
    machine, _ = case
    result = run(machine, log=True)
    cycle, row, col, _, side, _ = result.moves.T
    taken = Counter(zip(cycle.tolist(), row.tolist(), col.tolist(), side.tolist(), strict=True))
    assert max(taken.values(), default=0) <= 1
    assert (np.diff(cycle) >= 0).all()
    words = np.zeros_like(result.link_words)
    over = side < Port.RAMP
    np.add.at(words, (side[over], row[over], col[over]), 1)
    np.testing.assert_array_equal(words, result.link_words)
    links = sum(
        operation_words(machine, routed.colour) * sum(target != Port.RAMP for target in routed.position.targets)
        for routed in machine.route_blocks
    )
    assert result.hops == links


@given(multicasts())
@settings(max_examples=12, deadline=None)
def test_a_wavelet_comes_by_the_link_it_left_on(
    case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]],
) -> None:
    """As many leave each queue, and no sooner, as came over its link before."""
    machine, _ = case
    waiting: Counter[tuple[int, ...]] = Counter()
    entered: list[tuple[int, tuple[int, ...]]] = []
    left: set[tuple[int, ...]] = set()
    for cycle, row, col, colour, side, source in run(machine, log=True).moves.tolist():
        while entered and entered[0][0] < cycle:
            waiting[entered.pop(0)[1]] += 1
        if (cycle, row, col, colour, source) not in left:  # once, through however many ports
            left.add((cycle, row, col, colour, source))
            if source != Port.RAMP:
                waiting[row, col, colour, source] -= 1
                assert waiting[row, col, colour, source] >= 0
        if side != Port.RAMP:
            down, right = STEP[Port(side)]
            entered.append((cycle, (row + down, col + right, colour, Port(side).opposite)))
    for _, place in entered:
        waiting[place] += 1
    assert not any(waiting.values())


def operation_words(machine: WaveletMachine, colour: int) -> int:
    return next(each.operation.words for each in machine.operation_blocks if each.operation.send == colour)


def same(one: MachineRun, other: MachineRun) -> None:
    assert one.cycles == other.cycles
    for name in ("pe_cycles", "op_times", "memory", "link_words"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@given(multicasts(), st.integers(0, 2**16))
@settings(max_examples=12, deadline=None)
def test_queue_order_changes_nothing(
    case: tuple[WaveletMachine, list[tuple[Place, list[Place], int]]], seed: int
) -> None:
    machine, _ = case
    memory = distinct(machine)
    plain = run(machine, memory)
    same(plain, run(machine, memory, shuffle=seed))


@pytest.mark.parametrize("colours", [2, 3, 8])
@pytest.mark.parametrize("words", [1, 50])
def test_colours_take_a_shared_link_in_turn(colours: int, words: int) -> None:
    """Streams from as many PEs meet on the last link: it never rests, and while all wait each has its turn."""
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
