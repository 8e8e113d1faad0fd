"""The oracle of the wavelet machine: lists and small objects, every cycle one by one, from the arrays of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

HEAD, OUTPUTS, LINK, CONTROLS, POSITION, CAPACITY, LATENCY, TAIL = 0, 2, 8, 9, 10, 11, 12, 14


@dataclass
class Queue:
    """A queue: waiting (cycle from which it may move, control bit, payload), and the switch position it serves."""

    link: int
    capacity: int
    latency: int
    position: int | None
    controls: int
    waiting: list[tuple[int, int, np.float32]] = field(default_factory=list)
    carried: int = 0

    def ready(self, t: int) -> bool:
        return bool(self.waiting) and self.waiting[0][0] <= t

    def take(self) -> tuple[int, np.float32]:
        _, control, value = self.waiting.pop(0)
        return control, value

    def put(self, t: int, control: int, value: np.float32) -> None:
        self.waiting.append((t + self.latency, control, value))
        self.carried += 1


def run_wavelets(
    queues: I32,
    routes: I32,
    links: I32,
    members: I32,
    routers: I32,
    threads: I32,
    ops: I32,
    times: I32,
    memory: F32,
    spans: I32,
    events: I32,
    counts: I64,
    burst: int,
    limit: int,
) -> None:
    """Run each component of ``spans``; changes what the kernel changes, of the queues their counters alone."""
    machine = _Machine(queues, routes, links, members, routers, threads, ops, times, memory, burst)
    for span in spans:
        last_event = 0
        for t in range(limit):
            before = machine.state()
            machine.cycle(t, span)
            if machine.state() != before:
                last_event = t + 1
            elif not machine.has_event_after(t, span):
                break
        span[6] = last_event
    for row, queue in zip(queues, machine.queues, strict=True):
        row[HEAD], row[TAIL] = queue.carried - len(queue.waiting), queue.carried
    counts[0] += machine.moves
    del events


def _queue(row: list[int]) -> Queue:
    position = row[POSITION] if row[OUTPUTS] else None
    return Queue(row[LINK], row[CAPACITY], row[LATENCY], position, row[CONTROLS])


class _Machine:
    def __init__(self, queues: Any, *tables: Any) -> None:
        self.routes, self.links, self.members, self.routers = tables[:4]
        self.threads, self.ops, self.times, self.memory, self.burst = tables[4:]
        self.queues = [_queue(q) for q in queues.tolist()]
        self.moves = 0

    def state(self) -> tuple[int, int]:
        """Grows with every event."""
        return self.moves, int(self.threads[:, [0]].sum()) * 2**32 + int(self.threads[:, 3].sum())

    def has_event_after(self, t: int, span: I32) -> bool:
        """Return whether time alone lets something happen after cycle ``t``."""
        del span
        waiting = [queue.waiting[0][0] for queue in self.queues if queue.waiting]
        starts = [int(h[2]) for h in self.threads if h[0] != h[1]]
        return any(time > t for time in [*waiting, *starts, *self.times[:, 1].tolist()])

    def cycle(self, t: int, span: I32) -> None:
        """Judge on the state at the start: routers first, then the PEs' words, then the moves."""
        chosen = [q for q in range(span[0], span[1]) if self.can_move(q, t)]
        for router in range(span[2], span[3]):
            for turn in range(5):
                chosen += self.arbitrate(self.routers[router, (t + turn) % 5], t)
        for thread in range(span[4], span[5]):
            if self.threads[thread, 0] != self.threads[thread, 1]:
                self.work(thread, t)
        for q in chosen:
            self.move(q, t)

    def targets(self, q: int) -> list[int]:
        position = self.queues[q].position
        return [] if position is None else self.routes[position, 1 : 1 + self.routes[position, 0]].tolist()

    def can_move(self, q: int, t: int) -> bool:
        targets = [self.queues[s] for s in self.targets(q)]
        return bool(targets) and self.queues[q].ready(t) and all(len(s.waiting) < s.capacity for s in targets)

    def arbitrate(self, link: int, t: int) -> list[int]:
        """Return the member that gets a link, round-robin from the one after the last winner."""
        if link < 0 or self.links[link, 0] == t:
            return []
        _, turn, first, end = self.links[link].tolist()
        for m in [*range(turn, end), *range(first, turn)]:
            q = int(self.members[m])
            output_links = [self.queues[s].link for s in self.targets(q)]
            all_free = all(self.links[output_link, 0] != t for output_link in output_links)
            if link in output_links and all_free and self.can_move(q, t):
                self.links[output_links, 0] = t
                self.links[link, 1] = m + 1 if m + 1 < end else first
                return [q]
        return []

    def work(self, thread: int, t: int) -> None:
        """The next word of a thread's operation, if it can be done."""
        h = self.threads[thread]
        op, done_words = int(h[0]), int(h[3])
        receive, send, arrival, address, words, after, mark, _, delay = self.ops[op].tolist()
        if h[2] > t or (done_words == 0 and after >= 0 and not 0 <= self.times[after, 1] <= t):
            return
        source = self.queues[receive] if receive >= 0 else None
        target = self.queues[send] if send >= 0 else None
        if source and not source.ready(t):
            return
        if source and done_words == 0 and delay and h[5] <= op:
            h[2], h[5] = t + delay, op + 1
            return
        if target and (len(target.waiting) >= target.capacity or self.links[target.link, 0] == t):
            return
        if source:
            self.combine(h, arrival, address + done_words, source.take()[1], done_words)
        last = done_words + 1 == words
        if target:
            self.links[target.link, 0] = t
            target.put(t, int(last and mark), self.memory[address + done_words])
        if done_words == 0:
            self.times[op, 0] = t
        if self.burst and (done_words + 1) % self.burst == 0:
            h[2] = t + 2
        h[3] = done_words + 1
        if last:
            self.times[op, 1] = t + 1
            h[0], h[3] = op + 1, 0
            h[2] = t + 1 + (self.ops[op + 1, 7] if op + 1 < h[1] else 0)

    def combine(self, h: I32, arrival: int, at: int, new: np.float32, done_words: int) -> None:
        old = self.memory[at]
        if arrival == 1:
            self.memory[at] = old + new
        elif arrival == 2 or (arrival == 3 and done_words % 2 == 0):
            if arrival == 3:
                h[4] = 2 if new > old else int(new == old)
            self.memory[at] = new if new > old else old
        elif arrival == 3:
            self.memory[at] = new if h[4] == 2 or (h[4] == 1 and new < old) else old
        elif arrival == 0:
            self.memory[at] = new

    def move(self, q: int, t: int) -> None:
        """Move a wavelet to all its targets; a control bit may end the switch position that it passes."""
        queue, targets = self.queues[q], self.targets(q)
        control, value = queue.take()
        self.moves += 1
        for s in targets:
            self.queues[s].put(t, control, value)
        if control and queue.controls:
            queue.controls -= 1
            if not queue.controls:
                ended, queue.position = queue.position, None
                for position in self.routes[ended, 7:9].tolist():
                    if position >= 0:
                        to = self.queues[int(self.routes[position, 9])]
                        to.position, to.controls = position, int(self.routes[position, 6])
