"""Timing kernel: a cycle-by-cycle simulation of routers, queues and vector operations.

Every place that can store a wavelet is a queue behind one physical link: the queue of a colour at a
port of a router, or at the ramp of a compute element. All decisions of a cycle depend only on the
state at its start and are then executed, so the order of queues does not affect the result. A link
that several queues may use in a cycle selects one round-robin among their colours. A router serves
its links beginning with port ``cycle mod 5``.

- ``queues``, int32 ``[queue, 32]``: the columns named below, then eight slots of (2 × cycle from
  which the wavelet may move + control bit, payload); 128 bytes in all
- ``routes``, int32 ``[position, 10]``: switch positions: number of outputs, up to five queues,
  control wavelets until the position ends (0: never), next position or -1 while another colour
  holds it, a held position of another colour that follows too or -1, queue that the position takes
  wavelets from
- ``links``, int32 ``[link, 4]``: cycle in which the link was last used, member whose turn it is,
  first and end of its members
- ``members``, int32 ``[n]``: queues that compete for a link
- ``routers``, int32 ``[router, 5]``: links with several members, by port; -1 for the others
- ``threads``, int32 ``[thread, 8]``: the columns named below; the threads of a PE are contiguous
- ``ops``, int32 ``[operation, 9]``: vector operations, the columns named below
- ``times``, int32 ``[operation, 2]``: first cycle of each operation and the cycle after its last;
  -1 before
- ``memory``, float32 ``[word]``: words of all PEs
- ``spans``, int32 ``[component, 8]``: first and end of the queues, routers and threads of a
  connected component, cycle after its last event
- ``events``, int32 ``[n, 3]``: (cycle, queue entered, queue left) for each move, as far as there is
  room
- ``counts``, int64 ``[3]``: moves, events written, visits of a queue or thread
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Columns that change with every wavelet are not adjacent: the compiler would load two adjacent ones at once and stall.
HEAD, OUTPUTS, OUTPUT, LINK, CONTROLS, POSITION, CAPACITY, LATENCY, TAIL, SLOTS = 0, 2, 3, 8, 9, 10, 11, 12, 14, 16
QUEUE_WORDS, SLOT_COUNT, LAST_SLOT = 32, 8, 7
THREAD_WORDS, OP_WORDS = 8, 9
INDEX = 0x7FFFFFFF  # mask that tells the compiler that an index is not negative and need not wrap around
ROUTE_CONTROLS, ROUTE_NEXT, ROUTE_RELEASED, ROUTE_QUEUE = 6, 7, 8, 9
TAKEN, TURN, MEMBER, MEMBER_END = 0, 1, 2, 3
CURRENT, LAST, NOT_BEFORE, DONE, CHOICE, DELAYED = 0, 1, 2, 3, 4, 5
RECEIVE, SEND, ARRIVAL, ADDRESS, WORDS, AFTER, MARK, GAP, DELAY = 0, 1, 2, 3, 4, 5, 6, 7, 8
REPLACE, ADD, MAX, ARGMAX, DROP = 0, 1, 2, 3, 6
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
    """Simulate wavelets (32-bit words in the fabric) until nothing can move any more.

    Connected components of the machine are simulated one after another. A cycle has three phases:

    1. Decide which queues send their first wavelet: those alone on their links, and those that win
       an arbitration.
    2. Process one word of every vector operation whose input is ready and whose output has room.
    3. Move the wavelets of phase 1. A wavelet with a control bit may end the switch position that
       it passes.

    If nothing happened, time advances to the next cycle in which something can happen.

    Args:
        queues, routes, links, members, routers, threads, ops, times, memory, spans, events, counts:
            Arrays described at the top of this file, changed in place.
        burst: A vector operation pauses for a cycle after this number of words; 0 for never.
        limit: Cycle at which a component is stopped at the latest.
    """
    state, payload = queues.reshape(-1), queues.reshape(-1).view(np.float32)
    thread_state, op_list, time_list = threads.reshape(-1), ops.reshape(-1), times.reshape(-1)
    selected_queues = np.empty(len(queues), np.int64)  # offsets into ``state``, not queue indices
    moves, event_count, visits = np.int64(0), counts[1], np.int64(0)
    for span in range(len(spans)):
        first_queue, end_queue = np.int64(spans[span, 0]), np.int64(spans[span, 1])
        first_router, end_router = spans[span, 2], spans[span, 3]
        first_thread, end_thread = np.int64(spans[span, 4]), np.int64(spans[span, 5])
        t, last_event = 0, 0
        while t < limit:
            wake = NEVER
            # 1. Select the queues that move: those alone on their links, then the winners of arbitrations.
            selected_count = 0
            for i in range(first_queue, end_queue):
                q = (i & INDEX) * QUEUE_WORDS
                if state[q + TAIL] != state[q + HEAD] and state[q + OUTPUTS] > 0:
                    ready = state[q + SLOTS + 2 * (state[q + HEAD] & LAST_SLOT)] >> 1
                    if ready > t:
                        wake = min(wake, ready)
                        continue
                    free = True
                    for k in range(OUTPUT, OUTPUT + (state[q + OUTPUTS] & 7)):
                        s = (state[q + k] & INDEX) * QUEUE_WORDS
                        if state[s + TAIL] - state[s + HEAD] >= state[s + CAPACITY]:
                            free = False
                            break
                    if free:
                        selected_queues[selected_count] = q
                        selected_count += 1
            for router in range(first_router, end_router):
                for turn in range(5):
                    link = routers[router, (t + turn) % 5]
                    if link < 0 or links[link, TAKEN] == t:
                        continue
                    begin, end, m = links[link, MEMBER], links[link, MEMBER_END], links[link, TURN]
                    for _ in range(begin, end):
                        q = (members[m] & INDEX) * QUEUE_WORDS
                        m = m + 1 if m + 1 < end else begin
                        if state[q + TAIL] == state[q + HEAD] or state[q + OUTPUTS] == 0:
                            continue
                        ready = state[q + SLOTS + 2 * (state[q + HEAD] & LAST_SLOT)] >> 1
                        if ready > t:
                            wake = min(wake, ready)
                            continue
                        wants_link, free = False, True
                        for k in range(OUTPUT, OUTPUT + (state[q + OUTPUTS] & 7)):
                            s = (state[q + k] & INDEX) * QUEUE_WORDS
                            output_link = state[s + LINK] & INDEX
                            wants_link |= output_link == link
                            if (
                                state[s + TAIL] - state[s + HEAD] >= state[s + CAPACITY]
                                or links[output_link, TAKEN] == t
                            ):
                                free = False
                                break
                        if wants_link and free:
                            selected_queues[selected_count] = q
                            selected_count += 1
                            links[link, TURN], links[link, TAKEN] = m, t
                            if state[q + OUTPUTS] == 1:
                                break
                            for k in range(OUTPUT, OUTPUT + (state[q + OUTPUTS] & 7)):
                                s = (state[q + k] & INDEX) * QUEUE_WORDS
                                links[state[s + LINK] & INDEX, TAKEN] = t
                            break
            # 2. Process one word of every vector operation whose input is ready and whose output has room.
            has_worked = False
            for i in range(first_thread, end_thread):
                h = (i & INDEX) * THREAD_WORDS
                op = thread_state[h + CURRENT]
                if op == thread_state[h + LAST]:
                    continue
                if thread_state[h + NOT_BEFORE] > t:
                    wake = min(wake, thread_state[h + NOT_BEFORE])
                    continue
                o = (op & INDEX) * OP_WORDS
                done_words, source, target = thread_state[h + DONE] & INDEX, op_list[o + RECEIVE], op_list[o + SEND]
                predecessor = op_list[o + AFTER]
                if done_words == 0 and predecessor >= 0 and (times[predecessor, 1] < 0 or times[predecessor, 1] > t):
                    if times[predecessor, 1] > t:
                        wake = min(wake, times[predecessor, 1])
                    continue
                q, s, slot = 0, 0, 0
                if source >= 0:
                    q = (source & INDEX) * QUEUE_WORDS
                    if state[q + TAIL] == state[q + HEAD]:
                        continue
                    slot = q + SLOTS + 2 * (state[q + HEAD] & LAST_SLOT)
                    if state[slot] >> 1 > t:
                        wake = min(wake, state[slot] >> 1)
                        continue
                    delay = op_list[o + DELAY]
                    if done_words == 0 and delay > 0 and thread_state[h + DELAYED] <= op:
                        thread_state[h + DELAYED] = op + 1
                        thread_state[h + NOT_BEFORE] = t + delay
                        wake = min(wake, t + delay)
                        continue
                if target >= 0:
                    s = (target & INDEX) * QUEUE_WORDS
                    ramp = state[s + LINK] & INDEX
                    if state[s + TAIL] - state[s + HEAD] >= state[s + CAPACITY] or links[ramp, TAKEN] == t:
                        continue
                    links[ramp, TAKEN] = t
                arrival, address = op_list[o + ARRIVAL], (op_list[o + ADDRESS] & INDEX) + done_words
                value = memory[address] if arrival != DROP else np.float32(0)
                if source >= 0:
                    new = payload[slot + 1]
                    state[q + HEAD] += 1
                    if arrival == ADD:
                        value = value + new
                    elif arrival == MAX:
                        value = new if new > value else value
                    elif arrival == ARGMAX:
                        if done_words % 2 == 0:
                            thread_state[h + CHOICE] = 2 if new > value else 1 if new == value else 0
                            value = new if new > value else value
                        elif thread_state[h + CHOICE] == 2 or (thread_state[h + CHOICE] == 1 and new < value):
                            value = new
                    else:
                        value = new
                    if arrival != DROP:
                        memory[address] = value
                last = done_words + 1 == op_list[o + WORDS]
                if target >= 0:
                    place = s + SLOTS + 2 * (state[s + TAIL] & LAST_SLOT)
                    control = 1 if last and op_list[o + MARK] else 0
                    state[place] = 2 * (t + state[s + LATENCY]) + control
                    payload[place + 1] = value
                    state[s + TAIL] += 1
                if done_words == 0:
                    time_list[2 * op] = t
                if last:
                    time_list[2 * op + 1] = t + 1
                    thread_state[h + CURRENT] = op + 1
                    thread_state[h + DONE] = 0
                    gap = op_list[o + OP_WORDS + GAP] if op + 1 < thread_state[h + LAST] else 0
                    thread_state[h + NOT_BEFORE] = t + 1 + gap
                else:
                    thread_state[h + DONE] = done_words + 1
                    if burst > 0 and (done_words + 1) % burst == 0:
                        thread_state[h + NOT_BEFORE] = t + 2
                has_worked = True
            # 3. Move the selected wavelets; those with a control bit may end the switch positions that they pass.
            for i in range(selected_count):
                q = selected_queues[i] & INDEX
                slot = q + SLOTS + 2 * (state[q + HEAD] & LAST_SLOT)
                control, value = state[slot] & 1, state[slot + 1]
                state[q + HEAD] += 1
                for k in range(OUTPUT, OUTPUT + (state[q + OUTPUTS] & 7)):
                    s = (state[q + k] & INDEX) * QUEUE_WORDS
                    place = s + SLOTS + 2 * (state[s + TAIL] & LAST_SLOT)
                    state[place] = 2 * (t + state[s + LATENCY]) + control
                    state[place + 1] = value
                    state[s + TAIL] += 1
                    if event_count < len(events):
                        events[event_count, 0], events[event_count, 1], events[event_count, 2] = (
                            t,
                            s // QUEUE_WORDS,
                            q // QUEUE_WORDS,
                        )
                        event_count += 1
                if control and state[q + CONTROLS] > 0:
                    state[q + CONTROLS] -= 1
                    if state[q + CONTROLS] == 0:
                        state[q + OUTPUTS] = 0
                        ended = state[q + POSITION]
                        for column in (ROUTE_NEXT, ROUTE_RELEASED):
                            position = routes[ended, column]
                            if position >= 0:
                                s = (routes[position, ROUTE_QUEUE] & INDEX) * QUEUE_WORDS
                                state[s + POSITION] = position
                                for k in range(ROUTE_CONTROLS):
                                    state[s + OUTPUTS + k] = routes[position, k]
                                state[s + CONTROLS] = routes[position, ROUTE_CONTROLS]
            moves += selected_count
            visits += end_queue - first_queue + end_thread - first_thread
            if selected_count > 0 or has_worked:
                t += 1
                last_event = t
            elif wake < NEVER:
                t = wake
            else:
                break
        spans[span, 6] = last_event
    counts[0] += moves
    counts[1] = event_count
    counts[2] += visits
