"""Conversion of a WaveletMachine to the flat arrays of the simulation kernel.

Queues that influence each other form a connected component. Components are simulated in batches
that each fit into the processor's cache, so queues are numbered by batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import F32, I32, I64
from wse.backends.wavelet.components import components, spans
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.wiring import INTO_PE, NONE, SIDES, Wiring
from wse_kernels.operands import wavelet_tables as k
from wse_kernels.operands.wavelet_tables import WaveletTables


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """Input arrays of the cycle-by-cycle simulation kernel, and the PEs that their rows refer to.

    Attributes:
        queues, routes, links, routers, threads, ops: Arrays of the kernel, with one row per queue
            of words, router setting, link, router, thread, and vector operation.
            `wse_kernels.operands.wavelet_tables` describes the columns.
        members: int32 ``[n]``: queues that compete for a link, grouped by link.
        times: int32 ``[operations, 2]``: cycles in which each operation begins and ends.
        spans: int32 ``[batches, 8]``: the queues, routers and threads that are simulated together.
        identity: int32 ``[queues, 3]``: PE, side and colour of each queue.
        thread_pe: int32 ``[threads]``: PE of each thread.
        op_order: int32 ``[operations]``: for each row of ``ops``, the index of the operation in the
            WaveletMachine.
    """

    queues: I32
    routes: I32
    links: I32
    members: I32
    routers: I32
    threads: I32
    thread_pe: I32
    ops: I32
    times: I32
    spans: I32
    identity: I32
    op_order: I32

    def kernel_tables(self, memory: F32) -> WaveletTables:
        """Return the arguments of the simulation kernel: its tables, and the memory of all PEs.

        Args:
            memory: float32 words of all PEs.
        """
        tables = self.queues, self.routes, self.links, self.members, self.routers, self.threads, self.ops, self.times
        return WaveletTables(*tables, memory)


def tables(machine: WaveletMachine, *, shuffle: int | None = None) -> Tables:
    """Convert a machine to the arrays of the simulation kernel.

    Args:
        machine: The machine to simulate.
        shuffle: Seed for a random numbering of the queues within their components. It does not
            affect results.

    Raises:
        BadInput: There are too many queues, or a route leads nowhere.
    """
    return _Flattening(machine, shuffle).result()


class _Flattening:
    """Converter from a WaveletMachine to the arrays of the simulation kernel.

    A WaveletMachine consists of the routes and vector operations of PEs. The kernel simulates it
    cycle by cycle.

    The queues of wavelets are renumbered, so that queues simulated together are adjacent. Queues
    that are simulated together form a batch. Within a batch, the order is: queues that share no
    link with other queues; queues that share a link; queues that are read only by a PE.

    Args:
        machine: The machine to simulate.
        shuffle: Seed for a random order within each type; None for the order in the machine.
    """

    def __init__(self, machine: WaveletMachine, shuffle: int | None) -> None:
        self.wiring = Wiring(machine)
        queues = len(self.wiring.key)
        order = np.arange(queues)
        if shuffle is not None:
            np.random.default_rng(shuffle).shuffle(order)
        self.kind = np.where(self.wiring.identity[:, 1] == INTO_PE, 2, self.wiring.shares_link)
        self.component = spans(components(queues + len(self.wiring.thread_key), self.wiring.edges()), queues)
        self.order = order[np.lexsort((self.kind[order], self.component[order]))]
        self.renumbered = np.empty(queues, np.int64)
        self.renumbered[self.order] = np.arange(queues)
        self.links, self.link_number = np.unique(self.wiring.link, return_inverse=True)

    def result(self) -> Tables:
        """Return all arrays of the simulation kernel for the machine, as `Tables`."""
        links, members, routers, router_component = self._link_table()
        threads, thread_order, op_order = self._thread_table()
        routes = self._route_table()
        return Tables(
            queues=self._queue_table(routes),
            routes=routes,
            links=links,
            members=members,
            routers=routers,
            threads=threads,
            thread_pe=self.wiring.thread_pe[thread_order],
            ops=self._op_table(op_order),
            times=np.full((len(op_order), 2), -1, np.int32),
            spans=self._spans(router_component, self.component[len(self.wiring.key) :][thread_order]),
            identity=self.wiring.identity[self.order],
            op_order=op_order.astype(np.int32),
        )

    def _route_table(self) -> I32:
        """Return the switch positions for the simulation kernel, with one table row per position.

        A switch position is a setting of a router for one colour. A row contains:

        - the queues to which words are sent
        - the number of control bits after which the position ends
        - the index of the next position, and of the position that it releases
        - the queue from which words come
        """
        table = np.zeros((len(self.wiring.place), 10), np.int32)
        table[:, 0] = self.wiring.targets.sum(axis=1)
        front = np.argsort(~self.wiring.targets, axis=1, kind="stable")  # targets first, in their order
        successor = np.take_along_axis(self.wiring.successor, front, axis=1)
        table[:, 1:6] = np.where(successor >= 0, self.renumbered[successor], 0) if len(self.wiring.key) else 0
        last = np.searchsorted(self.wiring.place, self.wiring.place, side="right") - 1
        next_position = np.minimum(np.arange(len(self.wiring.place)) + 1, last)
        table[:, k.ROUTE_CONTROLS] = self.wiring.controls
        table[:, k.ROUTE_NEXT] = np.where(self.wiring.waits_for_release, NONE, next_position)
        table[:, k.ROUTE_RELEASED] = self.wiring.released_positions()
        table[:, k.ROUTE_QUEUE] = self.renumbered[self.wiring.position_queue]
        return table

    def _queue_table(self, routes: I32) -> I32:
        """Return the queues for the simulation kernel, with one table row per queue.

        A row contains:

        - the index of the link into the queue, and the latency of this link in cycles
        - the capacity of the queue in words
        - the switch position (setting of the router for the queue's colour) at the start of the
          simulation: its index, the queues to which it sends words, and the number of control bits
          after which it ends
        """
        machine, table = self.wiring.machine, np.zeros((len(self.wiring.key), k.QUEUE_WORDS), np.int32)
        latency = [machine.wafer.hop_cycles] * 4 + [machine.wafer.ramp_cycles + 1, machine.wafer.ramp_cycles]
        side = self.wiring.identity[self.order, 1]
        table[:, k.LINK] = self.link_number[self.order]
        table[:, k.LATENCY] = np.array(latency)[side]
        table[:, k.CAPACITY] = np.array([machine.queue_words(cycles) for cycles in latency])[side]
        first = np.flatnonzero(self.wiring.rank == 0)
        queue = self.renumbered[self.wiring.position_queue[first]]
        table[queue, k.OUTPUTS] = routes[first, 0]
        table[queue, k.OUTPUT : k.OUTPUT + 5] = routes[first, 1:6]
        table[queue, k.CONTROLS] = routes[first, k.ROUTE_CONTROLS]
        table[queue, k.POSITION] = first
        return table

    def _link_table(self) -> tuple[I32, I32, I32, I32]:
        """Return the tables that say which queues of words compete for each link between routers.

        A link has entries in these tables only if at least one of the queues that send over it
        shares a link with other queues.

        Returns:
            Four arrays: the links; the queues that may send over each of them, sorted by colour and
            then by port; the routers, with the links at their ports; and the batch in which each
            router is simulated. `wse_kernels.operands.wavelet_tables` describes the columns.
        """
        table = np.zeros((len(self.links), 4), np.int32)
        table[:, k.TAKEN] = NONE
        link, user = self.wiring.users.T
        has_members = np.isin(link, link[self.wiring.shares_link[user]])
        link, user = link[has_members], user[has_members]
        order = np.lexsort((self.wiring.identity[user, 1], self.wiring.identity[user, 2], link))
        link, user = link[order], user[order]
        link_keys, first, count = np.unique(link, return_index=True, return_counts=True)
        number = np.searchsorted(self.links, link_keys)
        table[number, 1:] = np.stack([first, first, first + count], axis=1)
        place = np.stack([self.component[user[first]], link_keys // SIDES], axis=1).reshape(-1, 2)
        keys, row = np.unique(place, axis=0, return_inverse=True)
        routers = np.full((len(keys), 5), NONE, np.int32)
        routers[row.reshape(-1), link_keys % SIDES] = number
        return table, self.renumbered[user].astype(np.int32), routers, keys[:, 0].astype(np.int32)

    def _thread_table(self) -> tuple[I32, I64, I64]:
        """Return the threads for the simulation kernel, and the order of threads and operations.

        Threads are sorted by batch, and operations by thread.

        Returns:
            The table; the indices of the threads in the order of its rows; and the indices of the
            operations in the order in which the kernel stores them.
        """
        component = self.component[len(self.wiring.key) :]
        thread_order = np.lexsort((self.wiring.thread_key, component))
        rank = np.empty(len(thread_order), np.int64)
        rank[thread_order] = np.arange(len(thread_order))
        op_order = np.argsort(rank[self.wiring.op_thread], kind="stable")
        counts = np.bincount(rank[self.wiring.op_thread], minlength=len(thread_order))
        table = np.zeros((len(thread_order), k.THREAD_WORDS), np.int32)
        table[:, k.LAST] = counts.cumsum()
        table[:, k.CURRENT] = table[:, k.LAST] - counts
        if self.wiring.machine.start is not None:
            table[:, k.NOT_BEFORE] = self.wiring.machine.start.reshape(-1)[self.wiring.thread_pe[thread_order]]
        return table, thread_order, op_order

    def _op_table(self, op_order: I64) -> I32:
        """Return the vector operations for the simulation kernel, with one table row per operation.

        A row contains:

        - the queues that the operation receives from and sends to
        - how received words are combined or stored, and the address and number of words
        - the delays in cycles, and the operation that must end first

        Args:
            op_order: int64 ``[operations]``: for each row of the table, the index of the operation
                in the WaveletMachine.
        """
        machine, table = self.wiring.machine, np.zeros((len(op_order), k.OP_WORDS), np.int32)
        new = np.empty(len(op_order) + 1, np.int64)
        new[op_order], new[NONE] = np.arange(len(op_order)), NONE
        arrival, address, words, mark, gap, delay = self.wiring.op_columns[op_order].T
        for column, queue in ((k.RECEIVE, self.wiring.receive[op_order]), (k.SEND, self.wiring.send[op_order])):
            table[:, column] = np.where(queue >= 0, self.renumbered[queue], NONE) if len(self.wiring.key) else NONE
        table[:, k.ARRIVAL], table[:, k.WORDS], table[:, k.MARK] = arrival, words, mark
        table[:, k.GAP], table[:, k.DELAY] = gap, delay
        table[:, k.ADDRESS] = self.wiring.op_pe[op_order] * machine.memory_words + address
        table[:, k.AFTER] = new[self.wiring.op_after[op_order]]
        return table

    def _spans(self, router_component: I32, thread_component: I32) -> I32:
        """Return which queues, routers and threads belong to each batch, int32 ``[batches, 8]``.

        A batch is simulated as a whole before the next batch, so that it fits into the cache.
        Columns 0 to 5 are the first and end index of the queues, routers and threads of a batch.
        Only router queues that share no link are included. The last two columns are 0.
        """
        component_numbers = np.unique(np.concatenate([self.component[: len(self.wiring.key)], thread_component]))
        table = np.zeros((len(component_numbers), 8), np.int32)
        plain = self.component[self.order] * 3 + self.kind[self.order]
        for column, values in ((0, plain), (2, router_component * 3), (4, thread_component * 3)):
            table[:, column] = np.searchsorted(values, component_numbers * 3)
            table[:, column + 1] = np.searchsorted(values, component_numbers * 3 + 1)
        return table
