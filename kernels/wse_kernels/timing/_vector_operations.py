"""Vector operations of the simulated PEs, which process a word per cycle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.jit import helper_function
from wse_kernels.operands.arrivals import ADD, ARGMAX, DROP, MAX
from wse_kernels.operands.wavelet_tables import (
    ADDRESS,
    AFTER,
    ARRIVAL,
    CHOICE,
    CURRENT,
    DELAY,
    DELAYED,
    DONE,
    GAP,
    HEAD,
    LAST,
    LINK,
    LINK_WORDS,
    MARK,
    NOT_BEFORE,
    OP_WORDS,
    QUEUE_WORDS,
    RECEIVE,
    SEND,
    TAIL,
    TAKEN,
    THREAD_WORDS,
    WORDS,
)
from wse_kernels.timing._flat_tables import INDEX, append_wavelet, first_wavelet, has_room, offset_of, ready_cycle


class _Word(NamedTuple):
    """Next word of a vector operation to be processed by a thread of a simulated PE.

    Attributes:
        h: Offset of the thread in the flat table of threads.
        op, o: Index of the thread's operation, and its offset in the flat table of operations.
        done_words: Number of words of the operation processed so far.
        source, target: Indices of the input queue and the output queue, or -1 if there is none.
    """

    h: int
    op: int
    o: int
    done_words: int
    source: int
    target: int


@helper_function
def process_words(tables: Any, first_thread: Any, end_thread: Any, t: Any, wake: Any, burst: Any) -> Any:
    """Process one word of every vector operation that can proceed in cycle ``t``.

    Args:
        tables: State of the simulated machine, a `FlatTables`.
        first_thread, end_thread: Range of threads of PEs.
        t: The current cycle.
        wake: Next cycle in which another wavelet may move.
        burst: Number of words after which an operation pauses for one cycle; 0 for no pauses.

    Returns:
        Whether any word was processed, and the next cycle in which something may happen.
    """
    threads, ops, has_worked = tables.threads, tables.ops, False
    for i in range(first_thread, end_thread):
        h = offset_of(i, THREAD_WORDS)
        op = threads[h + CURRENT]
        if op == threads[h + LAST]:
            continue
        if threads[h + NOT_BEFORE] > t:
            wake = min(wake, threads[h + NOT_BEFORE])
            continue
        o = offset_of(op, OP_WORDS)
        word = _Word(h, op, o, threads[h + DONE] & INDEX, ops[o + RECEIVE], ops[o + SEND])
        can_work, wake = _can_process(tables, word, t, wake)
        if can_work:
            _process_word(tables, word, t, burst)
            has_worked = True
    return has_worked, wake


@helper_function
def _can_process(tables: Any, word: Any, t: Any, wake: Any) -> Any:
    """Check whether a thread can process its next word in cycle ``t``.

    The previous operation must have ended, a wavelet must be ready, and the output must have room.
    If so, the link from the PE to its router is marked as used in this cycle. The delay before the
    first word of a message begins when its wavelet is ready.

    Args:
        tables: State of the simulated machine, a `FlatTables`.
        word: Next word of a thread.
        t: The current cycle.
        wake: Next cycle in which something else may happen.

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
        q = offset_of(word.source, QUEUE_WORDS)
        if queues[q + TAIL] == queues[q + HEAD]:
            return False, wake
        ready = ready_cycle(queues, q)
        if ready > t:
            return False, min(wake, ready)
        delay = ops[word.o + DELAY]
        if word.done_words == 0 and delay > 0 and threads[word.h + DELAYED] <= word.op:
            threads[word.h + DELAYED] = word.op + 1
            threads[word.h + NOT_BEFORE] = t + delay
            return False, min(wake, t + delay)
    if word.target >= 0:
        s = offset_of(word.target, QUEUE_WORDS)
        ramp = offset_of(queues[s + LINK], LINK_WORDS)
        if not has_room(queues, s) or tables.links[ramp + TAKEN] == t:
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
        tables: State of the simulated machine, a `FlatTables`.
        word: Next word of a thread.
        t: The current cycle.
        burst: Number of words after which an operation pauses for one cycle, or 0 for no pauses.
    """
    queues, threads, ops, memory = tables.queues, tables.threads, tables.ops, tables.memory
    h, op, o, done_words, source, target = word
    arrival, address = ops[o + ARRIVAL], (ops[o + ADDRESS] & INDEX) + done_words
    value = memory[address] if arrival != DROP else np.float32(0)
    if source >= 0:  # 1
        q = offset_of(source, QUEUE_WORDS)
        new = tables.payloads[first_wavelet(queues, q) + 1]
        queues[q + HEAD] += 1
        value = _combine(threads, h, arrival, done_words, value, new)
        if arrival != DROP:
            memory[address] = value
    is_last = done_words + 1 == ops[o + WORDS]
    if target >= 0:  # 2
        control = 1 if is_last and ops[o + MARK] else 0
        append_wavelet(queues, tables.payloads, offset_of(target, QUEUE_WORDS), t, control, value)
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
    """Return the combination of a stored word and a received word.

    A (value, index) pair arrives as two words. The decision made for the value is stored in the
    thread and applied to the index: 2 keeps the received pair, 0 keeps the stored pair, and 1 means
    that the values are equal, so the lower index wins.

    Args:
        threads, h: Flat table of threads, and offset of the thread.
        arrival: Arrival code: ADD, MAX or ARGMAX; any other code returns the received word.
        done_words: Number of words of the operation processed so far.
        old: Stored word.
        new: Received word.
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
