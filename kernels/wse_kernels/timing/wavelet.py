"""Timing kernel: a cycle-by-cycle simulation of routers, queues and vector operations.

Every place that can store a wavelet is a queue at the end of one physical link: the queue of a
colour at a port of a router, or at the ramp of a compute element. All decisions of a cycle depend
only on the state at its start and are then executed, so the order of queues does not affect the
result. A link that several queues may use in a cycle selects one round-robin among their colours. A
router serves its links beginning with port ``cycle mod 5``. `wse_kernels.operands.wavelet_tables`
describes the tables of the simulated machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.jit import helper_function
from wse_kernels.operands.wavelet_tables import (
    CONTROLS,
    HEAD,
    OUTPUTS,
    POSITION,
    QUEUE_WORDS,
    ROUTE_CONTROLS,
    ROUTE_NEXT,
    ROUTE_QUEUE,
    ROUTE_RELEASED,
    WaveletTables,
)
from wse_kernels.timing._flat_tables import (
    INDEX,
    NEVER,
    FlatTables,
    append_wavelet,
    first_wavelet,
    offset_of,
    output_columns,
)
from wse_kernels.timing._selection import select_by_arbitration, select_unshared
from wse_kernels.timing._vector_operations import process_words


@helper_function
def _move_wavelets(tables: Any, selected_queues: Any, count: Any, events: Any, event_count: Any, t: Any) -> Any:
    """Move the first wavelet of each selected queue to all queues to which its router forwards it.

    Args:
        tables: State of the simulated machine, a `FlatTables`.
        selected_queues: Offsets of the queues.
        count: Number of queues.
        events: Array in which moves are recorded as long as there is room.
        event_count: Number of moves recorded so far.
        t: The current cycle.

    Returns:
        Number of moves recorded so far.
    """
    queues = tables.queues
    for i in range(count):
        q = selected_queues[i & INDEX] & INDEX
        slot = first_wavelet(queues, q)
        control, value = queues[slot] & 1, queues[slot + 1]
        queues[q + HEAD] += 1
        for k in output_columns(queues, q):
            s = offset_of(queues[q + k], QUEUE_WORDS)
            append_wavelet(queues, queues, s, t, control, value)
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
    """End a queue's current router setting, and start the settings that wait for its end.

    A setting (switch position) determines to which queues a router forwards the wavelets of a
    queue. When it ends, the next setting of the same colour starts. If a setting of another colour
    waits for the end, it starts too.

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
            s = offset_of(routes[position, ROUTE_QUEUE], QUEUE_WORDS)
            queues[s + POSITION] = position
            for k in range(ROUTE_CONTROLS):
                queues[s + OUTPUTS + k] = routes[position, k]
            queues[s + CONTROLS] = routes[position, ROUTE_CONTROLS]


def run_wavelets(tables: WaveletTables, spans: Any, events: Any, counts: Any, burst: int, limit: int) -> None:
    """Simulate wavelets (32-bit words in the fabric) until nothing can move any more.

    Parts of the machine that are not connected are simulated sequentially. A cycle has three
    phases:

    1. Select the queues that send their first wavelet: queues that are alone on their links, and
       queues that win an arbitration.
    2. Process one word of every vector operation whose input is ready and whose output has room.
    3. Move the wavelets of phase 1. A wavelet whose control bit is set may end the switch position
       (setting of a router) that it passes.

    If nothing happened, time advances to the next cycle in which something can happen.

    Args:
        tables: Tables of the machine, changed in place.
        spans: int32 ``[part, 8]``: first and end of the queues, of the routers and of the threads
            of a connected part, and the cycle after its last event, which is set.
        events: int32 ``[n, 3]``: receives (cycle, queue entered, queue left) for each move, as long
            as there is room.
        counts: int64 ``[2]``: numbers of moves and of events written, incremented in place.
        burst: A vector operation pauses for a cycle after this number of words; 0 for never.
        limit: Cycle at which the simulation of a part stops at the latest.
    """
    queues = tables.queues.reshape(-1)
    flat = FlatTables(
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
    moves, event_count = np.int64(0), counts[1]
    for span in range(len(spans)):
        first_queue, end_queue = np.int64(spans[span, 0]), np.int64(spans[span, 1])
        first_router, end_router = spans[span, 2], spans[span, 3]
        first_thread, end_thread = np.int64(spans[span, 4]), np.int64(spans[span, 5])
        t, last_event = 0, 0
        while t < limit:
            # 1. Select the queues that move.
            count, wake = select_unshared(flat, selected_queues, first_queue, end_queue, t)
            count, wake = select_by_arbitration(flat, selected_queues, count, (first_router, end_router), t, wake)
            # 2. Process one word of every vector operation that can go on.
            has_worked, wake = process_words(flat, first_thread, end_thread, t, wake, burst)
            # 3. Move the selected wavelets.
            event_count = _move_wavelets(flat, selected_queues, count, events, event_count, t)
            moves += count
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
