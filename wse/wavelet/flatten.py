"""A Machine as the flat arrays that the kernel runs on.

Queues are numbered by connected component, so that components run one after another in cache, or on several cores.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import BadInput
from wse.wavelet.machine import Machine, Port
from wse.wavelet.tables import FROM_PE, I32, INTO_PE, Tables
from wse_kernels import wavelet as k
from wse_mappings.schedule import Arrival

SIDES: Final = 6
SPAN_QUEUES: Final = 96  # 12 KiB of state, which the nearest cache holds beside the words of memory
LARGEST_QUEUES: Final = 2_000_000  # 128 bytes each


def tables(machine: Machine, *, shuffle: int | None = None) -> Tables:
    """Flatten ``machine``.

    Args:
        machine: What to run.
        shuffle: Seed of a random numbering of queues within their components; nothing may depend on it.

    Raises:
        BadInput: too many queues, or a route that leads nowhere.
    """
    return _Flattening(machine, shuffle).result()


class _Groups:
    """Sets that grow together (union and find with path halving)."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, item: int) -> int:
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def join(self, one: int, other: int) -> None:
        self.parent[self.find(one)] = self.find(other)


class _Flattening:
    def __init__(self, machine: Machine, shuffle: int | None) -> None:
        self.machine = machine
        self.key = self._queue_keys()
        self.number = {key: i for i, key in enumerate(self.key)}
        self.joined = _Groups(len(self.key) + len(machine.threads))
        self.users: dict[int, list[int]] = {}  # router queues that may send over a link
        self.route_rows: list[list[int]] = []
        self.first_route: dict[int, int] = {}  # of a queue that is enabled at the start
        self._routes()
        self._join_threads()
        self._renumber(shuffle)

    def _queue_keys(self) -> list[tuple[int, int, int]]:
        """(PE, side, colour) of every queue that some route or operation needs."""
        keys: dict[tuple[int, int, int], None] = {}
        for (pe, colour), positions in self.machine.positions.items():
            for position in positions:
                keys[pe, position.source, colour] = None
                if Port.RAMP in position.targets:
                    keys[pe, INTO_PE, colour] = None
        if len(keys) > LARGEST_QUEUES:
            msg = (
                f"wavelet reference: {len(keys):,} queues; at most {LARGEST_QUEUES:,} fit: "
                "take a smaller region, fewer colours or the fast model"
            )
            raise BadInput(msg)
        return list(keys)

    def _successor(self, pe: int, colour: int, target: Port) -> int:
        side: int
        if target == Port.RAMP:
            there, side = pe, INTO_PE
        else:
            there, side = self.machine.neighbour(pe, target), target.opposite
        found = self.number.get((there, side, colour))
        if found is None:
            beyond = "beyond the edge" if there < 0 else f"to {self.machine.where(there)}, which takes none from there"
            msg = f"wavelet reference: {self.machine.where(pe)} sends colour {colour} {target.name.lower()}, {beyond}"
            raise BadInput(msg)
        return found

    def _link(self, queue: int) -> int:
        """The physical link before a queue, by the PE and the port that it leaves."""
        pe, side, _ = self.key[queue]
        if side == INTO_PE:
            return pe * SIDES + Port.RAMP
        if side == Port.RAMP:
            return pe * SIDES + FROM_PE
        return self.machine.neighbour(pe, Port(side)) * SIDES + Port(side).opposite

    def _routes(self) -> None:
        first: dict[tuple[int, int], int] = {}  # row of each (PE, colour)'s first position
        rows = 0
        for key, positions in self.machine.positions.items():
            first[key] = rows
            rows += len(positions)
        for (pe, colour), positions in self.machine.positions.items():
            first_queue = self.number[pe, positions[0].source, colour]
            self.first_route[first_queue] = len(self.route_rows)
            for i, position in enumerate(positions):
                queue = self.number[pe, position.source, colour]
                targets = [self._successor(pe, colour, target) for target in sorted(position.targets)]
                self.joined.join(queue, first_queue)
                for target in targets:
                    self.joined.join(queue, target)
                    sharing = self.users.setdefault(self._link(target), [])
                    if queue not in sharing:
                        sharing.append(queue)
                        self.joined.join(queue, sharing[0])
                following = -1 if position.held else first[pe, colour] + min(i + 1, len(positions) - 1)
                released = -1
                if position.releases:
                    other, index = position.releases
                    released = first[pe, other] + index
                    self.joined.join(queue, self.number[pe, self.machine.positions[pe, other][index].source, other])
                outputs = targets + [0] * (5 - len(targets))
                self.route_rows.append([len(targets), *outputs, position.controls, following, released, queue])

    def _join_threads(self) -> None:
        """A thread belongs with its queues, with whatever its operations wait for, and with others on its ramp."""
        thread_of = {op: i for i, ops in enumerate(self.machine.threads.values()) for op in ops}
        injecting: dict[int, int] = {}
        user: dict[int, int] = {}  # of a queue between router and compute element
        for i, ((pe, _), ops) in enumerate(self.machine.threads.items()):
            node = len(self.key) + i
            for number in ops:
                op = self.machine.operations[number]
                for colour, side in ((op.receive, INTO_PE), (op.send, Port.RAMP)):
                    if colour >= 0:
                        queue = self._operand(pe, side, colour)
                        self.joined.join(node, queue)
                        if user.setdefault(queue, i) != i:
                            msg = (
                                f"wavelet reference: two threads of {self.machine.where(pe)} use its queue of colour "
                                f"{colour}; give one of the transfers another colour"
                            )
                            raise BadInput(msg)
                if op.send >= 0:
                    self.joined.join(node, injecting.setdefault(pe, node))
                if op.after >= 0:
                    self.joined.join(node, len(self.key) + thread_of[op.after])

    def _operand(self, pe: int, side: int, colour: int) -> int:
        found = self.number.get((pe, side, colour))
        if found is None:
            does = "receives" if side == INTO_PE else "sends"
            msg = (
                f"wavelet reference: {self.machine.where(pe)} {does} on colour {colour}, which has no such route there"
            )
            raise BadInput(msg)
        return found

    def _renumber(self, shuffle: int | None) -> None:
        """Sort queues by span of components, then plain ones, those that share a link, those that only a PE reads."""
        self.shared = {queue for users in self.users.values() if len(users) > 1 for queue in users}
        order = np.arange(len(self.key))
        if shuffle is not None:
            np.random.default_rng(shuffle).shuffle(order)
        self.kind = [2 if side == INTO_PE else int(i in self.shared) for i, (_, side, _) in enumerate(self.key)]
        self.component = self._spans_of([self.joined.find(i) for i in range(len(self.joined.parent))])
        self.order = sorted(order.tolist(), key=lambda i: (self.component[i], self.kind[i]))
        self.renumbered = {old: new for new, old in enumerate(self.order)}
        self.link_number = {link: i for i, link in enumerate(sorted({self._link(i) for i in range(len(self.key))}))}

    def _spans_of(self, component: list[int]) -> list[int]:
        """A number for each node, of consecutive small components together: one alone would wait for its own words."""
        size: dict[int, int] = {}
        for i in component[: len(self.key)]:
            size[i] = size.get(i, 0) + 1
        span, room, number = -1, 0, {}
        for i, queues in size.items():
            if room <= 0:
                span, room = span + 1, SPAN_QUEUES
            number[i] = span
            room -= queues
        return [number[i] for i in component]

    def result(self) -> Tables:
        queues, identity = self._queues()
        links, members, routers, router_component = self._links()
        threads, thread_pe, thread_component = self._threads()
        return Tables(
            queues=queues,
            routes=self._route_table(),
            links=links,
            members=members,
            routers=routers,
            threads=threads,
            thread_pe=thread_pe,
            ops=self._operations(),
            times=np.full((len(self.machine.operations), 2), -1, np.int32),
            spans=self._spans(router_component, thread_component),
            identity=identity,
            op_order=np.array(self.op_order, np.int32),
        )

    def _queues(self) -> tuple[I32, I32]:
        machine, table = self.machine, np.zeros((len(self.order), k.QUEUE_WORDS), np.int32)
        latency = [machine.wafer.hop_cycles] * 4 + [machine.wafer.ramp_cycles + 1, machine.wafer.ramp_cycles]
        identity = np.array([self.key[old] for old in self.order], np.int32).reshape(-1, 3)
        for new, old in enumerate(self.order):
            row, side = table[new], self.key[old][1]
            row[k.LINK] = self.link_number[self._link(old)]
            row[k.LATENCY], row[k.CAPACITY] = latency[side], machine.queue_words(latency[side])
            if old in self.first_route:
                position = self.first_route[old]
                outputs, *targets = self.route_rows[position][: k.ROUTE_CONTROLS]
                row[k.OUTPUTS], row[k.POSITION] = outputs, position
                row[k.OUTPUT : k.OUTPUT + outputs] = [self.renumbered[target] for target in targets[:outputs]]
                row[k.CONTROLS] = self.route_rows[position][k.ROUTE_CONTROLS]
        return table, identity

    def _route_table(self) -> I32:
        table = np.array(self.route_rows, np.int32).reshape(-1, 10)
        new = np.array([self.renumbered[old] for old in range(len(self.order))] or [0], np.int32)
        table[:, 1:6] = new[table[:, 1:6]]
        table[:, k.ROUTE_QUEUE] = new[table[:, k.ROUTE_QUEUE]]
        return table

    def _links(self) -> tuple[I32, I32, I32, list[int]]:
        """Links, members, routers, and the component of each router; members by colour, then by port.

        All links of a queue that shares one of them have members, be it that queue alone.
        """
        table = np.zeros((len(self.link_number), 4), np.int32)
        table[:, k.TAKEN] = -1
        members: list[int] = []
        rows: dict[tuple[int, int], list[int]] = {}
        for link, users in self.users.items():
            if self.shared.intersection(users):
                users = sorted(users, key=lambda i: (self.key[i][2], self.key[i][1]))
                number, first = self.link_number[link], len(members)
                members += [self.renumbered[user] for user in users]
                table[number, 1:] = first, first, len(members)
                row = rows.setdefault((self.component[users[0]], link // SIDES), [-1] * 5)
                row[link % SIDES] = number
        keys = sorted(rows)
        routers = np.array([rows[key] for key in keys], np.int32).reshape(-1, 5)
        return table, np.array(members, np.int32), routers, [component for component, _ in keys]

    def _threads(self) -> tuple[I32, I32, list[int]]:
        """Threads, the PE of each and their components; operations are numbered thread by thread."""
        keys = list(self.machine.threads)
        component = [self.component[len(self.key) + i] for i in range(len(keys))]
        order = sorted(range(len(keys)), key=lambda i: (component[i], keys[i]))
        table = np.zeros((len(keys), 8), np.int32)
        self.op_order: list[int] = []
        for row, i in enumerate(order):
            ops = self.machine.threads[keys[i]]
            table[row, k.CURRENT], table[row, k.LAST] = len(self.op_order), len(self.op_order) + len(ops)
            table[row, k.NOT_BEFORE] = self.machine.operations[ops[0]].gap_cycles
            self.op_order += ops
        pes = np.array([keys[i][0] for i in order], np.int32)
        return table, pes, [component[i] for i in order]

    def _operations(self) -> I32:
        machine, table = self.machine, np.zeros((len(self.op_order), 8), np.int32)
        new = {old: row for row, old in enumerate(self.op_order)}
        pe_of = {op: pe for (pe, _), ops in machine.threads.items() for op in ops}
        for row, old in enumerate(self.op_order):
            op, pe = machine.operations[old], pe_of[old]
            table[row] = (
                self.renumbered[self.number[pe, INTO_PE, op.receive]] if op.receive >= 0 else -1,
                self.renumbered[self.number[pe, Port.RAMP, op.send]] if op.send >= 0 else -1,
                Arrival.REPLACE if op.arrival == Arrival.MULTICAST else op.arrival,
                pe * machine.memory_words + op.address,
                op.words,
                new[op.after] if op.after >= 0 else -1,
                op.mark,
                op.gap_cycles,
            )
        return table

    def _spans(self, router_component: list[int], thread_component: list[int]) -> I32:
        """First and end of each component's plain queues, routers and threads."""
        components = sorted({self.component[old] for old in self.order} | set(thread_component))
        table = np.zeros((len(components), 8), np.int32)
        queue_component = np.array([self.component[old] for old in self.order])
        plain_end = queue_component * 3 + np.array([self.kind[old] for old in self.order], int)
        routers, threads = np.array(router_component, int) * 3, np.array(thread_component, int) * 3
        wanted = np.array(components, int) * 3
        for column, values in ((0, plain_end), (2, routers), (4, threads)):
            table[:, column] = np.searchsorted(values, wanted)
            table[:, column + 1] = np.searchsorted(values, wanted + 1)
        return table
