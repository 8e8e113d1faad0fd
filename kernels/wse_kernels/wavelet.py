"""The wavelet machine, cycle by cycle: router queues, static routes with switches, the PEs' vector operations.

Everything that can hold a wavelet is a queue with one physical link before it: the queue of one colour behind a port of
a router, or of one colour behind the ramp of a compute element. A cycle is judged on its state at the start, then
carried out, so that no result depends on the order of queues. Links that several queues may use in a cycle choose in
turn (round robin among their colours); a router asks its links starting at port ``cycle mod 5``.

``queues``   int32 ``[queue, 32]``: the columns named below, then eight slots of (2 × cycle from which the wavelet may
             move + control bit, payload), 128 bytes in all
``routes``   int32 ``[position, 10]``: a switch position: number of outputs, up to five queues, control wavelets until
             it ends (0: never), the position that follows or -1 while another colour holds it, a held position of
             another colour that follows too or -1, the queue that it takes wavelets from
``links``    int32 ``[link, 4]``: cycle in which it was last taken, whose turn it is, first and end of its members
``members``  int32 ``[n]``: queues that compete for a link
``routers``  int32 ``[router, 5]``: links with several members, by port, -1 for the others
``threads``  int32 ``[thread, 8]``: the columns named below; a PE's threads lie side by side
``ops``      int32 ``[operation, 8]``: vector operations, the columns named below
``times``    int32 ``[operation, 2]``: first cycle of each operation and the cycle after its last; -1 before
``memory``   float32 ``[word]``: all PEs' words
``spans``    int32 ``[component, 8]``: first and end of the plain queues, routers and threads that are connected, the
             cycle after its last event
``events``   int32 ``[n, 2]``: (cycle, queue entered) of each wavelet's move, as many as there is room for
``counts``   int64 ``[3]``: moves, events written, visits of a queue or thread
"""

from __future__ import annotations

from typing import Any

import numpy as np

HEAD, COUNT, CARRIED, OUTPUTS, OUTPUT = 0, 1, 2, 3, 4
LINK, CONTROLS, POSITION, CAPACITY, LATENCY, SLOTS = 9, 10, 11, 12, 13, 16
QUEUE_WORDS, SLOT_COUNT = 32, 8
ROUTE_CONTROLS, ROUTE_NEXT, ROUTE_RELEASED, ROUTE_QUEUE = 6, 7, 8, 9
TAKEN, TURN, MEMBER, MEMBER_END = 0, 1, 2, 3
CURRENT, LAST, NOT_BEFORE, DONE, CHOICE = 0, 1, 2, 3, 4
RECEIVE, SEND, ARRIVAL, ADDRESS, WORDS, AFTER, MARK, GAP = 0, 1, 2, 3, 4, 5, 6, 7
REPLACE, ADD, LARGER, LARGER_PAIR, DROP = 0, 1, 2, 3, 6
NEVER = 2**30


def run_wavelets(
    queues: Any,
    routes: Any,
    links: Any,
    members: Any,
    routers: Any,
    threads: Any,
    ops: Any,
    times: Any,
    memory: Any,
    spans: Any,
    events: Any,
    counts: Any,
    burst: int,
    limit: int,
) -> None:
    """Run each component of ``spans`` until nothing can move any more, or until cycle ``limit``.

    ``burst``: a vector operation pauses one cycle after so many words; 0 for never.
    """
    payload = queues.view(np.float32)
    chosen = np.empty(len(queues), np.int32)
    moves, written, visits = 0, counts[1], 0
    for span in range(len(spans)):
        first_queue, end_queue = spans[span, 0], spans[span, 1]
        first_router, end_router = spans[span, 2], spans[span, 3]
        first_thread, end_thread = spans[span, 4], spans[span, 5]
        t, last_event = 0, 0
        while t < limit:
            wake = NEVER
            # 1. Which queues move: those alone on their links, then those that win them.
            picked = 0
            for q in range(first_queue, end_queue):
                if queues[q, COUNT] > 0 and queues[q, OUTPUTS] > 0:
                    ready = queues[q, SLOTS + 2 * queues[q, HEAD]] >> 1
                    if ready > t:
                        wake = min(wake, ready)
                        continue
                    free = True
                    for k in range(OUTPUT, OUTPUT + queues[q, OUTPUTS]):
                        s = queues[q, k]
                        if queues[s, COUNT] >= queues[s, CAPACITY]:
                            free = False
                    if free:
                        chosen[picked] = q
                        picked += 1
            for router in range(first_router, end_router):
                for turn in range(5):
                    link = routers[router, (t + turn) % 5]
                    if link < 0 or links[link, TAKEN] == t:
                        continue
                    begin, end, m = links[link, MEMBER], links[link, MEMBER_END], links[link, TURN]
                    for _ in range(begin, end):
                        q = members[m]
                        m = m + 1 if m + 1 < end else begin
                        if queues[q, COUNT] == 0 or queues[q, OUTPUTS] == 0:
                            continue
                        ready = queues[q, SLOTS + 2 * queues[q, HEAD]] >> 1
                        if ready > t:
                            wake = min(wake, ready)
                            continue
                        wanted, free = False, True
                        for k in range(OUTPUT, OUTPUT + queues[q, OUTPUTS]):
                            s = queues[q, k]
                            other = queues[s, LINK]
                            wanted |= other == link
                            if queues[s, COUNT] >= queues[s, CAPACITY] or links[other, TAKEN] == t:
                                free = False
                        if wanted and free:
                            chosen[picked] = q
                            picked += 1
                            links[link, TURN] = m
                            for k in range(OUTPUT, OUTPUT + queues[q, OUTPUTS]):
                                links[queues[queues[q, k], LINK], TAKEN] = t
                            break
            # 2. One word of every vector operation that has its word and its room.
            worked = False
            for thread in range(first_thread, end_thread):
                op = threads[thread, CURRENT]
                if op == threads[thread, LAST]:
                    continue
                if threads[thread, NOT_BEFORE] > t:
                    wake = min(wake, threads[thread, NOT_BEFORE])
                    continue
                done, source, target = threads[thread, DONE], ops[op, RECEIVE], ops[op, SEND]
                after = ops[op, AFTER]
                if done == 0 and after >= 0 and (times[after, 1] < 0 or times[after, 1] > t):
                    if times[after, 1] > t:
                        wake = min(wake, times[after, 1])
                    continue
                slot = 0
                if source >= 0:
                    if queues[source, COUNT] == 0:
                        continue
                    slot = SLOTS + 2 * queues[source, HEAD]
                    if queues[source, slot] >> 1 > t:
                        wake = min(wake, queues[source, slot] >> 1)
                        continue
                if target >= 0:
                    ramp = queues[target, LINK]
                    if queues[target, COUNT] >= queues[target, CAPACITY] or links[ramp, TAKEN] == t:
                        continue
                    links[ramp, TAKEN] = t
                arrival, address = ops[op, ARRIVAL], ops[op, ADDRESS] + done
                value = memory[address] if arrival != DROP else np.float32(0)
                if source >= 0:
                    new = payload[source, slot + 1]
                    queues[source, HEAD] = (queues[source, HEAD] + 1) & (SLOT_COUNT - 1)
                    queues[source, COUNT] -= 1
                    if arrival == ADD:
                        value = value + new
                    elif arrival == LARGER:
                        value = new if new > value else value
                    elif arrival == LARGER_PAIR:
                        if done % 2 == 0:
                            threads[thread, CHOICE] = 2 if new > value else 1 if new == value else 0
                            value = new if new > value else value
                        elif threads[thread, CHOICE] == 2 or (threads[thread, CHOICE] == 1 and new < value):
                            value = new
                    else:
                        value = new
                    if arrival != DROP:
                        memory[address] = value
                last = done + 1 == ops[op, WORDS]
                if target >= 0:
                    place = (queues[target, HEAD] + queues[target, COUNT]) & (SLOT_COUNT - 1)
                    control = 1 if last and ops[op, MARK] else 0
                    queues[target, SLOTS + 2 * place] = 2 * (t + queues[target, LATENCY]) + control
                    payload[target, SLOTS + 2 * place + 1] = value
                    queues[target, COUNT] += 1
                    queues[target, CARRIED] += 1
                if done == 0:
                    times[op, 0] = t
                if last:
                    times[op, 1] = t + 1
                    threads[thread, CURRENT] = op + 1
                    threads[thread, DONE] = 0
                    gap = ops[op + 1, GAP] if op + 1 < threads[thread, LAST] else 0
                    threads[thread, NOT_BEFORE] = t + 1 + gap
                else:
                    threads[thread, DONE] = done + 1
                    if burst > 0 and (done + 1) % burst == 0:
                        threads[thread, NOT_BEFORE] = t + 2
                worked = True
            # 3. Move the chosen wavelets; those with a control bit advance the switches that they pass.
            for i in range(picked):
                q = chosen[i]
                slot = SLOTS + 2 * queues[q, HEAD]
                control, value = queues[q, slot] & 1, queues[q, slot + 1]
                queues[q, HEAD] = (queues[q, HEAD] + 1) & (SLOT_COUNT - 1)
                queues[q, COUNT] -= 1
                for k in range(OUTPUT, OUTPUT + queues[q, OUTPUTS]):
                    s = queues[q, k]
                    place = SLOTS + 2 * ((queues[s, HEAD] + queues[s, COUNT]) & (SLOT_COUNT - 1))
                    queues[s, place] = 2 * (t + queues[s, LATENCY]) + control
                    queues[s, place + 1] = value
                    queues[s, COUNT] += 1
                    queues[s, CARRIED] += 1
                    if written < len(events):
                        events[written, 0], events[written, 1] = t, s
                        written += 1
                if control and queues[q, CONTROLS] > 0:
                    queues[q, CONTROLS] -= 1
                    if queues[q, CONTROLS] == 0:
                        queues[q, OUTPUTS] = 0
                        ended = queues[q, POSITION]
                        for column in (ROUTE_NEXT, ROUTE_RELEASED):
                            position = routes[ended, column]
                            if position >= 0:
                                to = routes[position, ROUTE_QUEUE]
                                queues[to, POSITION] = position
                                for k in range(ROUTE_CONTROLS):
                                    queues[to, OUTPUTS + k] = routes[position, k]
                                queues[to, CONTROLS] = routes[position, ROUTE_CONTROLS]
            moves += picked
            visits += end_queue - first_queue + end_thread - first_thread
            if picked > 0 or worked:
                t += 1
                last_event = t
            elif wake < NEVER:
                t = wake
            else:
                break
        spans[span, 6] = last_event
    counts[0] += moves
    counts[1] = written
    counts[2] += visits
