"""Wiring: routes, queues and operations of a WaveletMachine as arrays, with their connections.

Invalid configurations are rejected here: routes that lead nowhere, and two users of a resource that
allows only one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse.arrays import I32, I64
from wse.backends.wavelet.machine import OperationBlock, Port, WaveletMachine
from wse.errors import BadInput
from wse_mappings.schedule import Arrival

SIDES: Final = 6
INTO_PE: Final = 5  # side of a queue in addition to the five ports: after the ramp, in the compute element
FROM_PE: Final = 5  # port of a link in addition to the five of the router: from compute element to router
LARGEST_QUEUES: Final = 2_000_000  # 128 bytes each
NONE: Final = -1


def _per_pe(blocks: list[Any], values: list[Any]) -> I32:
    """Return one value for each PE of each block, in one array.

    The value of a block is repeated for all of its PEs.

    Args:
        blocks: `RouteBlock` or `OperationBlock` objects: items that were added to several PEs at
            once.
        values: One value per block.
    """
    return np.repeat(np.array(values, np.int32), [len(block.pes) for block in blocks])


def _pes(blocks: list[Any]) -> I32:
    """Return the PEs of all blocks in one array, int32 ``[n]``.

    Args:
        blocks: `RouteBlock` or `OperationBlock` objects: items that were added to several PEs at
            once.
    """
    return np.concatenate([np.zeros(0, np.int32), *(block.pes for block in blocks)])


def _ranks(sorted_keys: I64) -> I64:
    """Return the rank of each item among the items with the same key, from 0.

    For keys 3, 3, 5, the result is 0, 1, 0.

    Args:
        sorted_keys: int64 ``[n]``, key of each item, in ascending order.
    """
    first = np.searchsorted(sorted_keys, sorted_keys)
    return np.asarray(np.arange(len(sorted_keys)) - first, np.int64)


class Wiring:
    """Routes, queues and operations of a simulated machine, as arrays, and how they are connected.

    A router has a queue for each colour and each side that words come from. Words that have passed
    the ramp into a PE wait in another queue. Switch positions (settings of a router for a colour)
    are sorted by PE and colour, and operations are in the order of the machine.

    Attributes:
        key: int64 ``[queues]``: PE, side and colour of a queue as one number.
        identity: int32 ``[queues, 3]``: PE, side and colour of a queue.
        link: int64 ``[queues]``: physical link from which a queue receives words.
        place: int64 ``[positions]``: PE and colour of a switch position as one number.
        targets: bool ``[positions, 5]``: ports to which a position sends words.
        successor: int64 ``[positions, 5]``: queue to which each of these ports leads, or -1.
        position_queue: int64 ``[positions]``: queue from which a position receives words.
        users: int64 ``[n, 2]``: a link, and a queue that may send over it.
        thread_key: int64 ``[threads]``: PE and thread as one number.
        shares_link: bool ``[queues]``: whether another queue may send over the same link.
    """

    def __init__(self, machine: WaveletMachine) -> None:
        self.machine = machine
        self._positions()
        self._queues()
        self._outputs()
        self._operations()

    def _positions(self) -> None:
        """Store the data of all switch positions (settings of routers) in arrays.

        The arrays are sorted by PE and colour. Positions of the same PE and colour stay in order.
        """
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
        """Raise BadInput if a colour has more switch positions on a PE than the wafer allows."""
        machine = self.machine
        excess_positions = np.flatnonzero(self.rank >= machine.wafer.switch_positions)
        if len(excess_positions):
            first, max_positions = int(excess_positions[0]), machine.wafer.switch_positions
            count = int((self.place == self.place[first]).sum())
            raise BadInput(
                f"wavelet reference: {count} switch positions of colour {self.colour[first]} on "
                f"{machine.pe_text(int(self.pe[first]))}; {machine.wafer.name} has {max_positions} per colour: "
                "send some of the streams on another colour"
            )

    def _queues(self) -> None:
        """Find all queues into which routes send words, and sort them by PE, side and colour."""
        enters_pe = self.targets[:, Port.RAMP]
        keys = [
            self._key(self.pe, self.source, self.colour),
            self._key(self.pe[enters_pe], np.int32(INTO_PE), self.colour[enters_pe]),
        ]
        self.key = np.unique(np.concatenate(keys))
        if len(self.key) > LARGEST_QUEUES:
            raise BadInput(
                f"wavelet reference: {len(self.key):,} queues; at most {LARGEST_QUEUES:,} fit: "
                "use a smaller region, fewer colours or the fabric model"
            )
        colours = self.machine.wafer.colours
        parts = [self.key // colours // SIDES, self.key // colours % SIDES, self.key % colours]
        self.identity = np.stack(parts, axis=1).astype(np.int32)
        self.link = self._links_before()
        self.position_queue = np.searchsorted(self.key, keys[0])

    def _key(self, pe: I32, side: I32 | np.int32, colour: I32) -> I64:
        """Return an identifying number for each queue, computed from its PE, side and colour."""
        return (pe.astype(np.int64) * SIDES + side) * self.machine.wafer.colours + colour

    def _find(self, key: I64) -> I64:
        """Return the indices of the queues with the given keys; -1 if a queue does not exist."""
        at = np.minimum(np.searchsorted(self.key, key), max(len(self.key) - 1, 0))
        return np.where(self.key[at] == key, at, NONE) if len(self.key) else np.full(len(key), NONE)

    def _links_before(self) -> I64:
        """Return a number for each queue that identifies the link into it, int64 ``[queues]``.

        The number is computed from the PE and the port that the link leaves.
        """
        pe, side_of_queue = self.identity[:, 0], self.identity[:, 1]
        link = pe.astype(np.int64) * SIDES
        for side in Port:
            queues = side_of_queue == side
            if side == Port.RAMP:
                link[queues] += FROM_PE
            else:
                link[queues] = self.machine.neighbours(pe[queues], side) * np.int64(SIDES) + side.opposite
        link[side_of_queue == INTO_PE] += Port.RAMP
        return link

    def _outputs(self) -> None:
        """Find the queues to which switch positions send words, and the queues that share a link.

        A switch position is a setting of a router for one colour.
        """
        self.successor = np.full(self.targets.shape, NONE, np.int64)
        for target in Port:
            at = np.flatnonzero(self.targets[:, target])
            ramp = target == Port.RAMP
            receiver = self.pe[at] if ramp else self.machine.neighbours(self.pe[at], target)
            receiving_side = np.int32(INTO_PE if ramp else target.opposite)
            queue = np.where(receiver >= 0, self._find(self._key(receiver, receiving_side, self.colour[at])), NONE)
            if (queue < 0).any():
                self._refuse_dead_end(int(at[queue < 0][0]), target)
            self.successor[at, target] = queue
        position, side = np.nonzero(self.targets)
        uses = np.stack([self.link[self.successor[position, side]], self.position_queue[position]], axis=1)
        self.users = np.unique(uses, axis=0) if len(uses) else np.zeros((0, 2), np.int64)
        links, users = np.unique(self.users[:, 0], return_counts=True)
        self.shares_link = np.zeros(len(self.key), bool)
        self.shares_link[self.users[np.isin(self.users[:, 0], links[users > 1]), 1]] = True

    def _refuse_dead_end(self, position: int, target: Port) -> None:
        """Raise BadInput because a route ends at a PE that expects no words, or beyond the region.

        Args:
            position: Index of the switch position that sends the words.
            target: Port through which they are sent.
        """
        pe, pe_text = int(self.pe[position]), self.machine.pe_text
        neighbour = int(self.machine.neighbours(self.pe[[position]], target)[0])
        destination = "beyond the edge" if neighbour < 0 else f"to {pe_text(neighbour)}, which takes none from there"
        colour, side = self.colour[position], target.name.lower()
        raise BadInput(f"wavelet reference: {pe_text(pe)} sends colour {colour} {side}, {destination}")

    def _operations(self) -> None:
        """Store the data of all vector operations in arrays, with their threads and queues."""
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
        """Raise BadInput if a PE has more threads than the wafer has microthreads."""
        machine = self.machine
        pes, counts = np.unique(self.thread_pe, return_counts=True)
        excess_pes = np.flatnonzero(counts > machine.wafer.microthreads)
        if len(excess_pes):
            raise BadInput(
                f"wavelet reference: {counts[excess_pes[0]]} operations at the same time on "
                f"{machine.pe_text(int(pes[excess_pes[0]]))}; {machine.wafer.name} has {machine.wafer.microthreads} "
                "microthreads: let fewer patterns run together"
            )

    def _operands(self, side: int, colour: I32, does: str) -> I64:
        """Return the queue from which each operation receives, or to which it sends.

        Args:
            side: INTO_PE to return receive queues, Port.RAMP to return send queues.
            colour: int32 ``[operations]``: colour on which each operation receives, or sends; -1
                for none.
            does: Verb for error messages, "receives" or "sends".

        Returns:
            int64 ``[operations]``: index of the queue; -1 if there is none.

        Raises:
            BadInput: A queue does not exist, or two threads use the same queue.
        """
        queue = np.full(len(colour), NONE, np.int64)
        at = np.flatnonzero(colour >= 0)
        queue[at] = self._find(self._key(self.op_pe[at], np.int32(side), colour[at]))
        missing = at[queue[at] < 0]
        if len(missing):
            pe_text = self.machine.pe_text(int(self.op_pe[missing[0]]))
            raise BadInput(
                f"wavelet reference: {pe_text} {does} on colour {colour[missing[0]]}, which has no such route there"
            )
        users = np.unique(np.stack([queue[at], self.op_thread[at]], axis=1), axis=0)[:, 0]
        used_twice = users[1:][users[1:] == users[:-1]]
        if len(used_twice):
            pe, _, queue_colour = self.identity[used_twice[0]].tolist()
            raise BadInput(
                f"wavelet reference: two threads of {self.machine.pe_text(pe)} use its queue of colour {queue_colour}; "
                "give one of the transfers another colour"
            )
        return queue

    def edges(self) -> I32:
        """Return pairs of queues and threads that can affect each other, as int32 ``[n, 2]``.

        A pair is connected by a route, a link, a ramp, or a wait for an operation. Threads are
        numbered after queues.
        """
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
        receiving, awaiting = np.flatnonzero(self.receive >= 0), np.flatnonzero(self.op_after >= 0)
        pairs = [
            (self.position_queue, first),
            (self.position_queue[position], self.successor[position, target]),
            (self.users[:, 1], rival),
            (self.position_queue[releasing], self.position_queue[released[releasing]]),
            (thread[receiving], self.receive[receiving]),
            (thread[sending], self.send[sending]),
            (thread[sending], ramp),
            (thread[awaiting], thread[self.op_after[awaiting]]),
        ]
        return np.concatenate([np.stack(pair, axis=1) for pair in pairs]).astype(np.int32)

    def released_positions(self) -> I64:
        """Return, for each switch position, which position it releases when it ends.

        A switch position is a setting of a router for one colour. Some positions are blocked until
        another position ends and releases them.

        Returns:
            int64 ``[positions]``: index of the released position; -1 if there is none.
        """
        key = self.pe.astype(np.int64) * self.machine.wafer.colours + self.released_colour
        row = np.searchsorted(self.place, key) + self.released_index
        return np.where(self.released_colour >= 0, row, NONE)
