"""Timing kernel: a cycle-by-cycle simulation of routers, queues and vector operations.

Every place that can store a wavelet is a queue behind one physical link: the queue of a colour at a
port of a router, or at the ramp of a compute element. All decisions of a cycle depend only on the
state at its start and are then executed, so the order of queues does not affect the result. A link
that several queues may use in a cycle selects one round-robin among their colours. A router serves
its links beginning with port ``cycle mod 5``.

`wse_kernels.operands.wavelet_tables.WaveletTables` lists the int32 tables. Their columns are the
constants below, and:

- ``queues``: eight slots of (2 × cycle from which the wavelet may move + control bit, payload)
  follow the columns; 128 bytes in all
- ``routes``: number of outputs, up to five queues, control wavelets until the position ends (0:
  never), next position or -1 while another colour holds it, a held position of another colour that
  follows too or -1, queue that the position takes wavelets from
- ``links``: cycle in which the link was last used, member whose turn it is, first and end of its
  members
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.jit import helper_function
from wse_kernels.operands.wavelet_tables import WaveletTables as WaveletTables

# Columns that change with every wavelet are not adjacent: the compiler would load two adjacent ones at once and stall.
HEAD, OUTPUTS, OUTPUT, LINK, CONTROLS, POSITION, CAPACITY, LATENCY, TAIL, SLOTS = 0, 2, 3, 8, 9, 10, 11, 12, 14, 16
QUEUE_WORDS, SLOT_COUNT, LAST_SLOT = 32, 8, 7
THREAD_WORDS, OP_WORDS, LINK_WORDS, PORTS = 8, 9, 4, 5
INDEX = 0x7FFFFFFF  # mask that tells the compiler that an index is not negative and need not wrap around
ROUTE_CONTROLS, ROUTE_NEXT, ROUTE_RELEASED, ROUTE_QUEUE = 6, 7, 8, 9
TAKEN, TURN, MEMBER, MEMBER_END = 0, 1, 2, 3
CURRENT, LAST, NOT_BEFORE, DONE, CHOICE, DELAYED = 0, 1, 2, 3, 4, 5
RECEIVE, SEND, ARRIVAL, ADDRESS, WORDS, AFTER, MARK, GAP, DELAY = 0, 1, 2, 3, 4, 5, 6, 7, 8
REPLACE, ADD, MAX, ARGMAX, DROP = 0, 1, 2, 3, 6
NEVER = 2**30


class _Tables(NamedTuple):
    """Tables of the simulated machine. Those with a constant number of columns are flattened.

    Attributes:
        queues: Queues of wavelets (32-bit words on their way), flattened.
        payloads: The memory of ``queues`` as float32.
        routes, members: Switch positions, and queues that compete for a link, as in
            `WaveletTables`.
        links, routers, threads, ops, times: Tables of `WaveletTables`, flattened.
        memory: Words of all PEs.
    """

    queues: Any
    payloads: Any
    routes: Any
    links: Any
    members: Any
    routers: Any
    threads: Any
    ops: Any
    times: Any
    memory: Any


class _Word(NamedTuple):
    """Next word of a vector operation that a thread of a simulated PE processes.

    Attributes:
        h: Offset of the thread in the flat table of threads.
        op, o: Index of the thread's operation, and its offset in the flat table of operations.
        done_words: Number of words of the operation that were processed before.
        source, target: Index of the input queue and of the output queue, or -1 if there is none.
    """

    h: int
    op: int
    o: int
    done_words: int
    source: int
    target: int


def run_wavelets(tables: WaveletTables, spans: Any, events: Any, counts: Any, burst: int, limit: int) -> None:
    """Simulate wavelets (32-bit words in the fabric) until nothing can move any more.

    Parts of the machine that are not connected are simulated one after another. A cycle has three
    phases:

    1. Select the queues that send their first wavelet: queues that are alone on their links, and
       queues that win an arbitration.
    2. Process one word of every vector operation whose input is ready and whose output has room.
    3. Move the wavelets of phase 1. A wavelet whose control bit is set may end the switch position
       that it passes.

    If nothing happened, time advances to the next cycle in which something can happen.

    Args:
        tables: Tables of the machine, changed in place.
        spans: int32 ``[part, 8]``: first and end of the queues, of the routers and of the threads
            of a connected part, and the cycle after its last event, which is set.
        events: int32 ``[n, 3]``: receives (cycle, queue entered, queue left) for each move, as far
            as there is room.
        counts: int64 ``[3]``: moves, events written, visits of a queue or thread; added to.
        burst: A vector operation pauses for a cycle after this number of words; 0 for never.
        limit: Cycle at which the simulation of a part stops at the latest.
    """
    queues = tables.queues.reshape(-1)
    flat = _Tables(
        queues,
        queues.view(np.float32),
        tables.routes,
        tables.links.reshape(-1),
        tables.members,
        tables.routers.reshape(-1),
        tables.threads.reshape(-1),
        tables.ops.reshape(-1),
        tables.times.reshape(-1),
        tables.memory,
    )
    selected_queues = np.empty(len(tables.queues), np.int64)  # offsets into the flat table, not queue indices
    moves, event_count, visits = np.int64(0), counts[1], np.int64(0)
    for span in range(len(spans)):
        first_queue, end_queue = np.int64(spans[span, 0]), np.int64(spans[span, 1])
        first_router, end_router = spans[span, 2], spans[span, 3]
        first_thread, end_thread = np.int64(spans[span, 4]), np.int64(spans[span, 5])
        t, last_event = 0, 0
        while t < limit:
            # 1. Select the queues that move.
            count, wake = _select_unshared(flat, selected_queues, first_queue, end_queue, t)
            count, wake = _arbitrate(flat, selected_queues, count, (first_router, end_router), t, wake)
            # 2. Process one word of every vector operation that can go on.
            has_worked, wake = _work(flat, first_thread, end_thread, t, wake, burst)
            # 3. Move the selected wavelets.
            event_count = _move(flat, selected_queues, count, events, event_count, t)
            moves += count
            visits += end_queue - first_queue + end_thread - first_thread
            if count > 0 or has_worked:
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


@helper_function
def _offset(number: Any, words: Any) -> Any:
    """Return the offset of a row in a flat table.

    ``number`` is masked, which tells the compiler that it is not negative.

    Args:
        number: Index of the row.
        words: Words of a row.
    """
    return (number & INDEX) * words


@helper_function
def _is_waiting(queues: Any, q: Any) -> Any:
    """Return whether a queue has a wavelet and a switch position with outputs.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return queues[q + TAIL] != queues[q + HEAD] and queues[q + OUTPUTS] > 0


@helper_function
def _front(queues: Any, q: Any) -> Any:
    """Return the offset of the first wavelet in a queue.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return q + SLOTS + 2 * (queues[q + HEAD] & LAST_SLOT)


@helper_function
def _ready_cycle(queues: Any, q: Any) -> Any:
    """Return the cycle from which the first wavelet in a queue may move.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return queues[_front(queues, q)] >> 1


@helper_function
def _has_room(queues: Any, q: Any) -> Any:
    """Return whether a queue has room for another wavelet.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return queues[q + TAIL] - queues[q + HEAD] < queues[q + CAPACITY]


@helper_function
def _outputs(queues: Any, q: Any) -> Any:
    """Return the columns of a queue's row that contain the queues to which it sends wavelets.

    ``q`` is the offset of the row in the flat table of queues.
    """
    return range(OUTPUT, OUTPUT + (queues[q + OUTPUTS] & 7))


@helper_function
def _append(queues: Any, payloads: Any, q: Any, t: Any, control: Any, value: Any) -> Any:
    """Append a wavelet that enters a queue in cycle ``t``.

    Args:
        queues, payloads: Flat table of queues, and the same memory in the type of ``value``.
        q, t: Offset of the queue in the table; cycle.
        control, value: Control bit and payload. They are stored one right after the other, because
            they are loaded together.
    """
    place = q + SLOTS + 2 * (queues[q + TAIL] & LAST_SLOT)
    queues[place] = 2 * (t + queues[q + LATENCY]) + control
    payloads[place + 1] = value
    queues[q + TAIL] += 1


@helper_function
def _select_unshared(tables: Any, selected_queues: Any, first_queue: Any, end_queue: Any, t: Any) -> Any:
    """Select the queues that are alone on their links and can send their first wavelet.

    Args:
        tables: Tables of the machine.
        selected_queues: Offsets of the selected queues, written from index 0 on.
        first_queue, end_queue: Range of queues that share no link.
        t: Cycle.

    Returns:
        Number of selected queues, and the next cycle in which another wavelet may move.
    """
    queues, count, wake = tables.queues, 0, NEVER
    for i in range(first_queue, end_queue):
        q = _offset(i, QUEUE_WORDS)
        if _is_waiting(queues, q):
            ready = _ready_cycle(queues, q)
            if ready > t:
                wake = min(wake, ready)
                continue
            is_free = True
            for k in _outputs(queues, q):
                if not _has_room(queues, _offset(queues[q + k], QUEUE_WORDS)):
                    is_free = False
                    break
            if is_free:
                selected_queues[count & INDEX] = q
                count += 1
    return count, wake


@helper_function
def _arbitrate(tables: Any, selected_queues: Any, count: Any, routers: Any, t: Any, wake: Any) -> Any:
    """Select a queue for every free link that several queues compete for.

    The links of a router are served beginning with port t mod 5.

    Args:
        tables: Tables of the machine.
        selected_queues, count: Offsets of the selected queues; number of queues selected so far.
        routers: First router, and the end of the range of routers.
        t, wake: Cycle; next cycle in which another wavelet may move, as far as known.

    Returns:
        Number of selected queues, and the next cycle in which another wavelet may move.
    """
    for router in range(routers[0], routers[1]):
        for turn in range(PORTS):
            link = tables.routers[_offset(router, PORTS) + (t + turn) % PORTS]
            if link >= 0 and tables.links[_offset(link, LINK_WORDS) + TAKEN] != t:
                winner, wake = _winner(tables, _offset(link, LINK_WORDS), t, wake)
                if winner >= 0:
                    selected_queues[count & INDEX] = winner
                    count += 1
    return count, wake


@helper_function
def _winner(tables: Any, link: Any, t: Any, wake: Any) -> Any:
    """Select the queue that sends its first wavelet over a link in cycle ``t``, round-robin.

    Args:
        tables: Tables of the machine.
        link: Offset of the link in the flat table of links.
        t, wake: Cycle; next cycle in which another wavelet may move, as far as known.

    Returns:
        Offset of the queue, or -1 if none can send; next cycle in which another wavelet may move.
    """
    queues, links = tables.queues, tables.links
    begin, end, m = links[link + MEMBER], links[link + MEMBER_END], links[link + TURN]
    for _ in range(begin, end):
        q = _offset(tables.members[m], QUEUE_WORDS)
        m = m + 1 if m + 1 < end else begin
        if not _is_waiting(queues, q):
            continue
        ready = _ready_cycle(queues, q)
        if ready > t:
            wake = min(wake, ready)
        elif _can_send_over(queues, links, q, link, t):
            links[link + TURN], links[link + TAKEN] = m, t
            if queues[q + OUTPUTS] > 1:
                for k in _outputs(queues, q):
                    s = _offset(queues[q + k], QUEUE_WORDS)
                    links[_offset(queues[s + LINK], LINK_WORDS) + TAKEN] = t
            return q, wake
    return np.int64(-1), wake


@helper_function
def _can_send_over(queues: Any, links: Any, q: Any, link: Any, t: Any) -> Any:
    """Return whether a queue can send its first wavelet over a link in cycle ``t``.

    All of the wavelet's outputs must have room, and all of their links must be free.

    Args:
        queues, links: Flat tables of queues and of links.
        q, link: Offsets of the queue and of the link in these tables.
        t: Cycle.
    """
    wants_link = False
    for k in _outputs(queues, q):
        s = _offset(queues[q + k], QUEUE_WORDS)
        output_link = _offset(queues[s + LINK], LINK_WORDS)
        wants_link |= output_link == link
        if not _has_room(queues, s) or links[output_link + TAKEN] == t:
            return False
    return wants_link


@helper_function
def _work(tables: Any, first_thread: Any, end_thread: Any, t: Any, wake: Any, burst: Any) -> Any:
    """Process one word of every vector operation that can proceed in cycle ``t``.

    Args:
        tables: Tables of the machine.
        first_thread, end_thread: Range of threads of PEs.
        t, wake: Cycle; next cycle in which another wavelet may move.
        burst: Words after which an operation pauses for a cycle; 0 for never.

    Returns:
        Whether any word was processed, and the next cycle in which something may happen.
    """
    threads, ops, has_worked = tables.threads, tables.ops, False
    for i in range(first_thread, end_thread):
        h = _offset(i, THREAD_WORDS)
        op = threads[h + CURRENT]
        if op == threads[h + LAST]:
            continue
        if threads[h + NOT_BEFORE] > t:
            wake = min(wake, threads[h + NOT_BEFORE])
            continue
        o = _offset(op, OP_WORDS)
        word = _Word(h, op, o, threads[h + DONE] & INDEX, ops[o + RECEIVE], ops[o + SEND])
        can_work, wake = _can_process(tables, word, t, wake)
        if can_work:
            _process_word(tables, word, t, burst)
            has_worked = True
    return has_worked, wake


@helper_function
def _can_process(tables: Any, word: Any, t: Any, wake: Any) -> Any:
    """Check whether a thread can process its next word in cycle ``t``.

    The operation before must have ended, a wavelet must be ready, and the output must have room. If
    so, the link from the PE to its router is marked as used in this cycle. The delay before the
    first word of a message begins when its wavelet is ready.

    Args:
        tables, word: Tables of the machine; next word of a thread.
        t, wake: Cycle; next cycle in which something else may happen.

    Returns:
        Whether the word can be processed, and the next cycle in which something may happen.
    """
    queues, threads, ops, times = tables.queues, tables.threads, tables.ops, tables.times
    predecessor = ops[word.o + AFTER]
    if word.done_words == 0 and predecessor >= 0:
        end = times[2 * predecessor + 1]
        if end < 0 or end > t:
            return False, min(wake, end) if end > t else wake
    if word.source >= 0:
        q = _offset(word.source, QUEUE_WORDS)
        if queues[q + TAIL] == queues[q + HEAD]:
            return False, wake
        ready = _ready_cycle(queues, q)
        if ready > t:
            return False, min(wake, ready)
        delay = ops[word.o + DELAY]
        if word.done_words == 0 and delay > 0 and threads[word.h + DELAYED] <= word.op:
            threads[word.h + DELAYED] = word.op + 1
            threads[word.h + NOT_BEFORE] = t + delay
            return False, min(wake, t + delay)
    if word.target >= 0:
        s = _offset(word.target, QUEUE_WORDS)
        ramp = _offset(queues[s + LINK], LINK_WORDS)
        if not _has_room(queues, s) or tables.links[ramp + TAKEN] == t:
            return False, wake
        tables.links[ramp + TAKEN] = t
    return True, wake


@helper_function
def _process_word(tables: Any, word: Any, t: Any, burst: Any) -> Any:
    """Process a word of a vector operation.

    1. Take the first wavelet of the input, if there is one, and combine it with the word in memory.
    2. Send the word, if there is an output.
    3. Advance the thread to its next word or operation.

    Args:
        tables, word: Tables of the machine; next word of a thread.
        t, burst: Cycle; words after which an operation pauses for a cycle, 0 for never.
    """
    queues, threads, ops, memory = tables.queues, tables.threads, tables.ops, tables.memory
    h, op, o, done_words, source, target = word
    arrival, address = ops[o + ARRIVAL], (ops[o + ADDRESS] & INDEX) + done_words
    value = memory[address] if arrival != DROP else np.float32(0)
    if source >= 0:  # 1
        q = _offset(source, QUEUE_WORDS)
        new = tables.payloads[_front(queues, q) + 1]
        queues[q + HEAD] += 1
        value = _combine(threads, h, arrival, done_words, value, new)
        if arrival != DROP:
            memory[address] = value
    is_last = done_words + 1 == ops[o + WORDS]
    if target >= 0:  # 2
        control = 1 if is_last and ops[o + MARK] else 0
        _append(queues, tables.payloads, _offset(target, QUEUE_WORDS), t, control, value)
    if done_words == 0:  # 3
        tables.times[2 * op] = t
    if is_last:
        tables.times[2 * op + 1] = t + 1
        threads[h + CURRENT] = op + 1
        threads[h + DONE] = 0
        gap = ops[o + OP_WORDS + GAP] if op + 1 < threads[h + LAST] else 0
        threads[h + NOT_BEFORE] = t + 1 + gap
    else:
        threads[h + DONE] = done_words + 1
        if burst > 0 and (done_words + 1) % burst == 0:
            threads[h + NOT_BEFORE] = t + 2


@helper_function
def _combine(threads: Any, h: Any, arrival: Any, done_words: Any, old: Any, new: Any) -> Any:
    """Return the combination of a stored word with a received word.

    A (value, index) pair arrives as two words. The decision that is made for the value is stored in
    the thread and applied to the index: 2 keeps the received pair, 0 keeps the stored pair, and 1
    means equal values, of which the lower index wins.

    Args:
        threads, h: Flat table of threads, and offset of the thread.
        arrival, done_words: Arrival code; number of words of the operation that were processed
            before.
        old, new: Stored word; received word.
    """
    value = new
    if arrival == ADD:
        value = old + new
    elif arrival == MAX:
        value = new if new > old else old
    elif arrival == ARGMAX:
        if done_words % 2 == 0:
            threads[h + CHOICE] = 2 if new > old else 1 if new == old else 0
            value = new if new > old else old
        elif not (threads[h + CHOICE] == 2 or (threads[h + CHOICE] == 1 and new < old)):
            value = old
    return value


@helper_function
def _move(tables: Any, selected_queues: Any, count: Any, events: Any, event_count: Any, t: Any) -> Any:
    """Move the first wavelet of each selected queue to all outputs of its switch position.

    Args:
        tables: Tables of the machine.
        selected_queues, count: Offsets of the queues; number of queues.
        events, event_count: Array that moves are recorded in, as far as there is room; number of
            moves recorded so far.
        t: Cycle.

    Returns:
        Number of moves recorded so far.
    """
    queues = tables.queues
    for i in range(count):
        q = selected_queues[i & INDEX] & INDEX
        slot = _front(queues, q)
        control, value = queues[slot] & 1, queues[slot + 1]
        queues[q + HEAD] += 1
        for k in _outputs(queues, q):
            s = _offset(queues[q + k], QUEUE_WORDS)
            _append(queues, queues, s, t, control, value)
            if event_count < len(events):
                events[event_count, 0], events[event_count, 1] = t, s // QUEUE_WORDS
                events[event_count, 2] = q // QUEUE_WORDS
                event_count += 1
        if control and queues[q + CONTROLS] > 0:
            queues[q + CONTROLS] -= 1
            if queues[q + CONTROLS] == 0:
                _end_position(queues, tables.routes, q)
    return event_count


@helper_function
def _end_position(queues: Any, routes: Any, q: Any) -> Any:
    """End the switch position of a queue, and begin the positions that follow it.

    Args:
        queues: Flat table of queues.
        routes: Table of switch positions.
        q: Offset of the queue in the flat table.
    """
    queues[q + OUTPUTS] = 0
    ended = queues[q + POSITION]
    for column in (ROUTE_NEXT, ROUTE_RELEASED):
        position = routes[ended, column]
        if position >= 0:
            s = _offset(routes[position, ROUTE_QUEUE], QUEUE_WORDS)
            queues[s + POSITION] = position
            for k in range(ROUTE_CONTROLS):
                queues[s + OUTPUTS + k] = routes[position, k]
            queues[s + CONTROLS] = routes[position, ROUTE_CONTROLS]
