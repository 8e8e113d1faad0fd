"""A Machine's positions, queues and operations as arrays: which queue leads to which, who uses it, what runs together.

Whatever has no way to go, or two users where one is allowed, is refused here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse.arrays import I32, I64
from wse.backends.wavelet.machine import Machine, OperationBlock, Port
from wse.errors import BadInput
from wse_mappings.schedule import Arrival

SIDES: Final = 6
INTO_PE: Final = 5  # a queue's side beside the five ports: behind the ramp, in the compute element
FROM_PE: Final = 5  # a link's port beside the five of the router: from compute element to router
LARGEST_QUEUES: Final = 2_000_000  # 128 bytes each
NONE: Final = -1


def _per_pe(blocks: list[Any], values: list[Any]) -> I32:
    """Return the value of every block, repeated for each of its PEs."""
    return np.repeat(np.array(values, np.int32), [len(block.pes) for block in blocks])


def _pes(blocks: list[Any]) -> I32:
    return np.concatenate([np.zeros(0, np.int32), *(block.pes for block in blocks)])


def _ranks(sorted_keys: I64) -> I64:
    """Return the position of each item among equal items, for sorted keys."""
    first = np.searchsorted(sorted_keys, sorted_keys)
    return np.asarray(np.arange(len(sorted_keys)) - first, np.int64)


class Wiring:
    """The routes, queues and operations of a phase as arrays sorted by PE.

    ``key`` int64 ``[queue]``: PE, side and colour as one number, with ``identity`` int32 ``[queue, 3]``, those
    three, and ``link``, the physical link before it. ``place`` int64 ``[position]``: PE and colour as one number, with
    ``targets`` bool ``[position, 5]``, ``successor`` the queues behind them, ``position_queue`` the one in front.
    ``users`` int64 ``[n, 2]``: (link, queue that may send over it). Operations are in the Machine's order;
    ``thread_key`` holds PE and thread as one number.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._positions()
        self._queues()
        self._outputs()
        self._operations()

    def _positions(self) -> None:
        """Sort switch positions by PE and colour; positions of one (PE, colour) stay in order."""
        blocks = self.machine.route_blocks
        pe, colour = _pes(blocks), _per_pe(blocks, [block.colour for block in blocks])
        key = pe.astype(np.int64) * self.machine.wafer.colours + colour
        order = np.argsort(key, kind="stable")
        self.pe, self.colour, self.place = pe[order], colour[order], key[order]
        positions = [block.position for block in blocks]
        self.source = _per_pe(blocks, [position.source for position in positions])[order]
        targets = _per_pe(blocks, [sum(1 << target for target in position.targets) for position in positions])[order]
        self.targets = (targets[:, None] >> np.arange(5) & 1).astype(bool)
        self.controls = _per_pe(blocks, [position.controls for position in positions])[order]
        self.waits_for_release = _per_pe(blocks, [position.waits_for_release for position in positions])[order].astype(
            bool
        )
        releases = [position.releases or (NONE, 0) for position in positions]
        self.released_colour = _per_pe(blocks, [colour for colour, _ in releases])[order]
        self.released_index = _per_pe(blocks, [index for _, index in releases])[order]
        self.rank = _ranks(self.place)
        self._check_positions()

    def _check_positions(self) -> None:
        machine = self.machine
        beyond = np.flatnonzero(self.rank >= machine.wafer.switch_positions)
        if len(beyond):
            first, most = int(beyond[0]), machine.wafer.switch_positions
            count = int((self.place == self.place[first]).sum())
            msg = (
                f"wavelet reference: {count} switch positions of colour {self.colour[first]} on "
                f"{machine.pe_text(int(self.pe[first]))}; {machine.wafer.name} has {most} a colour: "
                "send some of the streams on another colour"
            )
            raise BadInput(msg)

    def _queues(self) -> None:
        """Collect the sorted keys of every queue that some route needs: (PE, side, colour) as one number."""
        into = self.targets[:, Port.RAMP]
        keys = [
            self._key(self.pe, self.source, self.colour),
            self._key(self.pe[into], np.int32(INTO_PE), self.colour[into]),
        ]
        self.key = np.unique(np.concatenate(keys))
        if len(self.key) > LARGEST_QUEUES:
            msg = (
                f"wavelet reference: {len(self.key):,} queues; at most {LARGEST_QUEUES:,} fit: "
                "take a smaller region, fewer colours or the fast model"
            )
            raise BadInput(msg)
        colours = self.machine.wafer.colours
        parts = [self.key // colours // SIDES, self.key // colours % SIDES, self.key % colours]
        self.identity = np.stack(parts, axis=1).astype(np.int32)
        self.link = self._links_before()
        self.position_queue = np.searchsorted(self.key, keys[0])

    def _key(self, pe: I32, side: I32 | np.int32, colour: I32) -> I64:
        return (pe.astype(np.int64) * SIDES + side) * self.machine.wafer.colours + colour

    def _find(self, key: I64) -> I64:
        """Return the indices of queues, -1 where there is none."""
        at = np.minimum(np.searchsorted(self.key, key), max(len(self.key) - 1, 0))
        return np.where(self.key[at] == key, at, NONE) if len(self.key) else np.full(len(key), NONE)

    def _links_before(self) -> I64:
        """Return the physical link before each queue, from the PE and the port that it leaves."""
        pe, behind = self.identity[:, 0], self.identity[:, 1]
        link = pe.astype(np.int64) * SIDES
        for side in Port:
            queues = behind == side
            if side == Port.RAMP:
                link[queues] += FROM_PE
            else:
                link[queues] = self.machine.neighbours(pe[queues], side) * np.int64(SIDES) + side.opposite
        link[behind == INTO_PE] += Port.RAMP
        return link

    def _outputs(self) -> None:
        """Return the queue after each target of each position ``[position, 5]``, and which queues share a link."""
        self.successor = np.full(self.targets.shape, NONE, np.int64)
        for target in Port:
            at = np.flatnonzero(self.targets[:, target])
            ramp = target == Port.RAMP
            receiver = self.pe[at] if ramp else self.machine.neighbours(self.pe[at], target)
            behind = np.int32(INTO_PE if ramp else target.opposite)
            queue = np.where(receiver >= 0, self._find(self._key(receiver, behind, self.colour[at])), NONE)
            if (queue < 0).any():
                self._leads_nowhere(int(at[queue < 0][0]), target)
            self.successor[at, target] = queue
        position, side = np.nonzero(self.targets)
        uses = np.stack([self.link[self.successor[position, side]], self.position_queue[position]], axis=1)
        self.users = np.unique(uses, axis=0) if len(uses) else np.zeros((0, 2), np.int64)
        links, users = np.unique(self.users[:, 0], return_counts=True)
        self.shared = np.zeros(len(self.key), bool)
        self.shared[self.users[np.isin(self.users[:, 0], links[users > 1]), 1]] = True

    def _leads_nowhere(self, position: int, target: Port) -> None:
        pe, where = int(self.pe[position]), self.machine.pe_text
        neighbour = int(self.machine.neighbours(self.pe[[position]], target)[0])
        beyond = "beyond the edge" if neighbour < 0 else f"to {where(neighbour)}, which takes none from there"
        msg = f"wavelet reference: {where(pe)} sends colour {self.colour[position]} {target.name.lower()}, {beyond}"
        raise BadInput(msg)

    def _operations(self) -> None:
        """Sort operations in the order of the machine, with the threads that they belong to."""
        blocks: list[OperationBlock] = self.machine.operation_blocks
        ops = [block.operation for block in blocks]
        self.op_pe = _pes(blocks)
        self.op_after = np.concatenate([np.zeros(0, np.int32), *(block.after for block in blocks)])
        columns: list[list[Any]] = [
            [Arrival.REPLACE if op.arrival == Arrival.MULTICAST else op.arrival for op in ops],
            [op.address for op in ops],
            [op.words for op in ops],
            [op.mark for op in ops],
            [op.gap_cycles for op in ops],
            [op.delay_cycles for op in ops],
        ]
        self.op_columns = np.stack([_per_pe(blocks, column) for column in columns], axis=1)
        thread = self.op_pe * np.int64(2**32) + _per_pe(blocks, [block.thread for block in blocks])
        self.thread_key, self.op_thread = np.unique(thread, return_inverse=True)
        self.thread_pe = (self.thread_key >> 32).astype(np.int32)
        self._check_threads()
        self.receive = self._operands(INTO_PE, _per_pe(blocks, [op.receive for op in ops]), "receives")
        self.send = self._operands(Port.RAMP, _per_pe(blocks, [op.send for op in ops]), "sends")

    def _check_threads(self) -> None:
        machine = self.machine
        pes, counts = np.unique(self.thread_pe, return_counts=True)
        beyond = np.flatnonzero(counts > machine.wafer.microthreads)
        if len(beyond):
            msg = (
                f"wavelet reference: {counts[beyond[0]]} operations at the same time on "
                f"{machine.pe_text(int(pes[beyond[0]]))}; {machine.wafer.name} has {machine.wafer.microthreads} "
                "microthreads: let fewer patterns run together"
            )
            raise BadInput(msg)

    def _operands(self, side: int, colour: I32, does: str) -> I64:
        """Return the queue of each operation on one side, -1 where it has none."""
        queue = np.full(len(colour), NONE, np.int64)
        at = np.flatnonzero(colour >= 0)
        queue[at] = self._find(self._key(self.op_pe[at], np.int32(side), colour[at]))
        missing = at[queue[at] < 0]
        if len(missing):
            where = self.machine.pe_text(int(self.op_pe[missing[0]]))
            msg = f"wavelet reference: {where} {does} on colour {colour[missing[0]]}, which has no such route there"
            raise BadInput(msg)
        users = np.unique(np.stack([queue[at], self.op_thread[at]], axis=1), axis=0)[:, 0]
        twice = users[1:][users[1:] == users[:-1]]
        if len(twice):
            pe, _, shared = self.identity[twice[0]].tolist()
            msg = (
                f"wavelet reference: two threads of {self.machine.pe_text(pe)} use its queue of colour {shared}; "
                "give one of the transfers another colour"
            )
            raise BadInput(msg)
        return queue

    def edges(self) -> I32:
        """Return the edges int32 ``[n, 2]`` between queues and threads that a route, link, ramp or wait connects."""
        queues = len(self.key)
        first = self.position_queue[np.searchsorted(self.place, self.place)]
        position, target = np.nonzero(self.targets)
        rival = self.users[np.searchsorted(self.users[:, 0], self.users[:, 0]), 1]
        released = self.released_positions()
        releasing = np.flatnonzero(released >= 0)
        thread = queues + self.op_thread
        sending = np.flatnonzero(self.send >= 0)
        ramp_pe, ramp_first = np.unique(self.op_pe[sending], return_index=True)
        ramp = thread[sending][ramp_first[np.searchsorted(ramp_pe, self.op_pe[sending])]]
        receiving, waiting = np.flatnonzero(self.receive >= 0), np.flatnonzero(self.op_after >= 0)
        pairs = [
            (self.position_queue, first),
            (self.position_queue[position], self.successor[position, target]),
            (self.users[:, 1], rival),
            (self.position_queue[releasing], self.position_queue[released[releasing]]),
            (thread[receiving], self.receive[receiving]),
            (thread[sending], self.send[sending]),
            (thread[sending], ramp),
            (thread[waiting], thread[self.op_after[waiting]]),
        ]
        return np.concatenate([np.stack(pair, axis=1) for pair in pairs]).astype(np.int32)

    def released_positions(self) -> I64:
        """Return the position that each position releases as it ends, or -1."""
        key = self.pe.astype(np.int64) * self.machine.wafer.colours + self.released_colour
        row = np.searchsorted(self.place, key) + self.released_index
        return np.where(self.released_colour >= 0, row, NONE)
