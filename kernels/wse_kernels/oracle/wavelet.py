"""Oracle of the wavelet simulation: lists and small objects, and every cycle one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wse_kernels.operands.wavelet_tables import (
    CAPACITY,
    CHOICE,
    CONTROLS,
    CURRENT,
    DELAYED,
    DONE,
    GAP,
    HEAD,
    LAST,
    LATENCY,
    LINK,
    NOT_BEFORE,
    OUTPUTS,
    PORTS,
    POSITION,
    ROUTE_CONTROLS,
    ROUTE_NEXT,
    ROUTE_QUEUE,
    ROUTE_RELEASED,
    TAIL,
    TAKEN,
    TURN,
    WaveletTables,
)

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


@dataclass
class Queue:
    """Queue of wavelets (32-bit words in transit) in a router.

    Attributes:
        link: Physical link from which wavelets enter the queue.
        capacity: Maximum number of waiting wavelets.
        latency: Number of cycles from entering the queue to the earliest exit.
        position: Index of the router's current setting (switch position) for the queue's wavelets,
            or None if another colour uses the router at present.
        controls: Number of control wavelets that must still pass before the router changes to the
            next setting; 0 if it never changes.
        waiting_wavelets: (first cycle in which the wavelet may move, control bit, payload) for each
            wavelet.
        entry_count: Number of wavelets that have entered the queue so far.
    """

    link: int
    capacity: int
    latency: int
    position: int | None
    controls: int
    waiting_wavelets: list[tuple[int, int, np.float32]] = field(default_factory=list)
    entry_count: int = 0

    def ready(self, t: int) -> bool:
        """Return whether the first waiting wavelet may move in cycle ``t``."""
        return bool(self.waiting_wavelets) and self.waiting_wavelets[0][0] <= t

    def take(self) -> tuple[int, np.float32]:
        """Remove the first waiting wavelet, and return its control bit and payload."""
        _, control, value = self.waiting_wavelets.pop(0)
        return control, value

    def put(self, t: int, control: int, value: np.float32) -> None:
        """Add a wavelet that enters the queue in cycle ``t``.

        Args:
            t: The cycle.
            control: Control bit, 1 if the wavelet may end a switch position.
            value: Payload.
        """
        self.waiting_wavelets.append((t + self.latency, control, value))
        self.entry_count += 1


def run_wavelets(tables: WaveletTables, spans: I32, events: I32, counts: I64, burst: int, limit: int) -> None:
    """Simulate independent parts of a machine wavelet by wavelet.

    This reference is used to test the compiled kernel of the same name. It changes the tables in
    the same way, except that

    - of the queue table, only the numbers of wavelets that have entered and left are updated
    - ``events`` are not recorded

    Args:
        tables, spans, events, counts: Arrays of the kernel, as described in
            `wse_kernels.timing.wavelet`. Each row of ``spans`` is one part.
        burst: Number of words after which a vector operation pauses for one cycle; 0 for no pauses.
        limit: Cycle by which the simulation of a part stops at the latest.
    """
    machine = _Machine(*tables, burst)
    for span in spans:
        last_event = 0
        for t in range(limit):
            state_before = machine.state()
            machine.cycle(t, span)
            if machine.state() != state_before:
                last_event = t + 1
            elif not machine.has_event_after(t):
                break
        span[6] = last_event
    for row, queue in zip(tables.queues, machine.queues, strict=True):
        row[HEAD], row[TAIL] = queue.entry_count - len(queue.waiting_wavelets), queue.entry_count
    counts[0] += machine.moves
    del events


def _queue(row: list[int]) -> Queue:
    """Create a queue without wavelets from a row of the kernel's table of queues.

    The row contains the link, the capacity, the latency, the router setting, and the number of
    control wavelets after which the setting changes.
    """
    position = row[POSITION] if row[OUTPUTS] else None
    return Queue(row[LINK], row[CAPACITY], row[LATENCY], position, row[CONTROLS])


class _Machine:
    """State of a machine in the wavelet simulation: queues, routes, links, threads and memory."""

    def __init__(self, queues: Any, *tables: Any) -> None:
        self.routes, self.links, self.members, self.routers = tables[:4]
        self.threads, self.ops, self.times, self.memory, self.burst = tables[4:]
        self.queues = [_queue(q) for q in queues.tolist()]
        self.moves = 0

    def state(self) -> tuple[int, int]:
        """Return two progress counters of the simulation.

        If both are unchanged after a cycle, no wavelet moved and no word was processed.
        """
        return self.moves, int(self.threads[:, CURRENT].sum()) * 2**32 + int(self.threads[:, DONE].sum())

    def has_event_after(self, t: int) -> bool:
        """Return whether something can still happen after cycle ``t``.

        A wavelet may become ready to move, or an operation may start or end. All queues and threads
        of the machine are examined, whichever part is simulated.
        """
        wavelet_times = [queue.waiting_wavelets[0][0] for queue in self.queues if queue.waiting_wavelets]
        starts = [int(row[NOT_BEFORE]) for row in self.threads if row[CURRENT] != row[LAST]]
        return any(time > t for time in [*wavelet_times, *starts, *self.times[:, 1].tolist()])

    def cycle(self, t: int, span: I32) -> None:
        """Simulate cycle ``t``. All decisions are based on the state at its start.

        1. Decide which queues move a wavelet, including arbitration by the routers.
        2. Process one word of each vector operation that can proceed.
        3. Move the wavelets.

        Args:
            t: The cycle.
            span: Ranges of the queues, routers and threads to simulate.
        """
        selected_queues = [q for q in range(span[0], span[1]) if self.can_move(q, t)]
        for router in range(span[2], span[3]):
            for turn in range(PORTS):
                selected_queues += self.arbitrate(self.routers[router, (t + turn) % PORTS], t)
        for thread in range(span[4], span[5]):
            if self.threads[thread, CURRENT] != self.threads[thread, LAST]:
                self.work(thread, t)
        for q in selected_queues:
            self.move(q, t)

    def targets(self, q: int) -> list[int]:
        """Return the indices of the queues that the first wavelet of queue ``q`` moves to."""
        position = self.queues[q].position
        return [] if position is None else self.routes[position, 1 : 1 + self.routes[position, 0]].tolist()

    def can_move(self, q: int, t: int) -> bool:
        """Return whether the first wavelet of queue ``q`` can move in cycle ``t``.

        The wavelet must be ready, and all of its target queues must have room.
        """
        targets = [self.queues[s] for s in self.targets(q)]
        return bool(targets) and self.queues[q].ready(t) and all(len(s.waiting_wavelets) < s.capacity for s in targets)

    def arbitrate(self, link: int, t: int) -> list[int]:
        """Return a list with the index of the queue that may use a link in cycle ``t``.

        The list is empty if no queue can use the link. Queues that compete for the link take turns
        (round-robin), starting after the last queue that used it.
        """
        if link < 0 or self.links[link, TAKEN] == t:
            return []
        _, turn, first, end = self.links[link].tolist()
        for m in [*range(turn, end), *range(first, turn)]:
            q = int(self.members[m])
            output_links = [self.queues[s].link for s in self.targets(q)]
            all_free = all(self.links[output_link, TAKEN] != t for output_link in output_links)
            if link in output_links and all_free and self.can_move(q, t):
                self.links[output_links, TAKEN] = t
                self.links[link, TURN] = m + 1 if m + 1 < end else first
                return [q]
        return []

    def work(self, thread: int, t: int) -> None:
        """Process the next word of a thread's vector operation if that is possible in cycle ``t``.

        1. Return if the operation must wait: for a certain cycle, for a preceding operation, for an
           input word, or for room at its output.
        2. Receive a word and combine it with the stored word.
        3. Send the stored word.
        4. Record the time, and advance to the next word or operation.
        """
        thread_row = self.threads[thread]
        op, done_words = int(thread_row[CURRENT]), int(thread_row[DONE])
        receive, send, arrival, address, words, predecessor, mark, _, delay = self.ops[op].tolist()
        # 1. Conditions.
        if thread_row[NOT_BEFORE] > t:
            return
        if done_words == 0 and predecessor >= 0 and not 0 <= self.times[predecessor, 1] <= t:
            return
        source = self.queues[receive] if receive >= 0 else None
        target = self.queues[send] if send >= 0 else None
        if source and not source.ready(t):
            return
        if source and done_words == 0 and delay and thread_row[DELAYED] <= op:
            thread_row[NOT_BEFORE], thread_row[DELAYED] = t + delay, op + 1
            return
        if target and (len(target.waiting_wavelets) >= target.capacity or self.links[target.link, TAKEN] == t):
            return
        # 2. Receive.
        if source:
            self.combine(thread_row, arrival, address + done_words, source.take()[1], done_words)
        # 3. Send.
        last = done_words + 1 == words
        if target:
            self.links[target.link, TAKEN] = t
            target.put(t, int(last and mark), self.memory[address + done_words])
        # 4. Advance.
        if done_words == 0:
            self.times[op, 0] = t
        if self.burst and (done_words + 1) % self.burst == 0:
            thread_row[NOT_BEFORE] = t + 2
        thread_row[DONE] = done_words + 1
        if last:
            self.times[op, 1] = t + 1
            thread_row[CURRENT], thread_row[DONE] = op + 1, 0
            thread_row[NOT_BEFORE] = t + 1 + (self.ops[op + 1, GAP] if op + 1 < thread_row[LAST] else 0)

    def combine(self, thread_row: I32, arrival: int, at: int, new: np.float32, done_words: int) -> None:
        """Combine a received word with the stored word at address ``at``.

        Args:
            thread_row: Row of the thread, which records whether the last received value of a pair
                has won.
            arrival: Arrival code: 0 replaces, 1 adds, 2 keeps the maximum, 3 keeps the (value,
                index) pair with the larger value.
            at: Address of the stored word.
            new: Received word.
            done_words: Number of words of the operation processed so far. Its parity distinguishes
                the values of pairs from the indices.
        """
        old = self.memory[at]
        if arrival == 1:
            self.memory[at] = old + new
        elif arrival == 2 or (arrival == 3 and done_words % 2 == 0):
            if arrival == 3:
                thread_row[CHOICE] = 2 if new > old else int(new == old)
            self.memory[at] = new if new > old else old
        elif arrival == 3:
            self.memory[at] = new if thread_row[CHOICE] == 2 or (thread_row[CHOICE] == 1 and new < old) else old
        elif arrival == 0:
            self.memory[at] = new

    def move(self, q: int, t: int) -> None:
        """Move the first wavelet of queue ``q`` to all of its targets, in cycle ``t``.

        A wavelet whose control bit is set may end the switch position that it passes. The router
        then changes to the next position.
        """
        queue, targets = self.queues[q], self.targets(q)
        control, value = queue.take()
        self.moves += 1
        for s in targets:
            self.queues[s].put(t, control, value)
        if control and queue.controls:
            queue.controls -= 1
            if not queue.controls:
                ended, queue.position = queue.position, None
                for position in self.routes[ended, [ROUTE_NEXT, ROUTE_RELEASED]].tolist():
                    if position >= 0:
                        to = self.queues[int(self.routes[position, ROUTE_QUEUE])]
                        to.position, to.controls = position, int(self.routes[position, ROUTE_CONTROLS])
