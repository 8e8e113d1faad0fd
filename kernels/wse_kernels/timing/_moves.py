"""Moves of wavelets from queue to queue, and the switch positions that they end."""

from __future__ import annotations

from typing import Any

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
)
from wse_kernels.timing._flat_tables import INDEX, append_wavelet, first_wavelet, offset_of, output_columns


@helper_function
def move_wavelets(tables: Any, selected_queues: Any, count: Any, events: Any, event_count: Any, t: Any) -> Any:
    """Move the first wavelet of each selected queue to all outputs of its switch position.

    Args:
        tables: Tables of the machine.
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
    """End the switch position of a queue, and start the positions that follow it.

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
