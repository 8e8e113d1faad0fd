"""Selection of the queues that send their first wavelet in a cycle."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.jit import helper_function
from wse_kernels.operands.wavelet_tables import (
    LINK,
    LINK_WORDS,
    MEMBER,
    MEMBER_END,
    OUTPUTS,
    PORTS,
    QUEUE_WORDS,
    TAKEN,
    TURN,
)
from wse_kernels.timing._flat_tables import INDEX, NEVER, has_room, is_waiting, offset_of, output_columns, ready_cycle


@helper_function
def select_unshared(tables: Any, selected_queues: Any, first_queue: Any, end_queue: Any, t: Any) -> Any:
    """Select queues that can send their first wavelet, among queues that share no link with others.

    A queue is selected if its first wavelet may move in cycle ``t`` and all queues that will
    receive it have room.

    Args:
        tables: State of the simulated machine, a `FlatTables`.
        selected_queues: Offsets of the selected queues, written starting at index 0.
        first_queue, end_queue: First queue to examine, and the index after the last. None of these
            queues shares a link with another queue.
        t: The current cycle.

    Returns:
        Number of selected queues, and the next cycle in which another wavelet may move.
    """
    queues, count, wake = tables.queues, 0, NEVER
    for i in range(first_queue, end_queue):
        q = offset_of(i, QUEUE_WORDS)
        if is_waiting(queues, q):
            ready = ready_cycle(queues, q)
            if ready > t:
                wake = min(wake, ready)
                continue
            is_free = True
            for k in output_columns(queues, q):
                if not has_room(queues, offset_of(queues[q + k], QUEUE_WORDS)):
                    is_free = False
                    break
            if is_free:
                selected_queues[count & INDEX] = q
                count += 1
    return count, wake


@helper_function
def select_by_arbitration(tables: Any, selected_queues: Any, count: Any, routers: Any, t: Any, wake: Any) -> Any:
    """Select a queue for every free link for which several queues compete.

    The links of a router are served in a cyclic order of its five ports, starting with port t mod
    5, so that no link always comes first.

    Args:
        tables: State of the simulated machine, a `FlatTables`.
        selected_queues: Offsets of the selected queues, written starting at index ``count``.
        count: Number of queues selected so far.
        routers: First router, and the end of the range of routers.
        t: The current cycle.
        wake: Next cycle in which another wavelet may move, considering the queues examined so far.

    Returns:
        Number of selected queues, and the next cycle in which another wavelet may move.
    """
    for router in range(routers[0], routers[1]):
        for turn in range(PORTS):
            link = tables.routers[offset_of(router, PORTS) + (t + turn) % PORTS]
            if link >= 0 and tables.links[offset_of(link, LINK_WORDS) + TAKEN] != t:
                winner, wake = _winner(tables, offset_of(link, LINK_WORDS), t, wake)
                if winner >= 0:
                    selected_queues[count & INDEX] = winner
                    count += 1
    return count, wake


@helper_function
def _winner(tables: Any, link: Any, t: Any, wake: Any) -> Any:
    """Select the queue that sends its first wavelet over a link in cycle ``t``, round-robin.

    Args:
        tables: State of the simulated machine, a `FlatTables`.
        link: Offset of the link in the flat table of links.
        t: The current cycle.
        wake: Next cycle in which another wavelet may move, considering the queues examined so far.

    Returns:
        Offset of the queue, or -1 if none can send; next cycle in which another wavelet may move.
    """
    queues, links = tables.queues, tables.links
    begin, end, m = links[link + MEMBER], links[link + MEMBER_END], links[link + TURN]
    for _ in range(begin, end):
        q = offset_of(tables.members[m], QUEUE_WORDS)
        m = m + 1 if m + 1 < end else begin
        if not is_waiting(queues, q):
            continue
        ready = ready_cycle(queues, q)
        if ready > t:
            wake = min(wake, ready)
        elif _can_send_over(queues, links, q, link, t):
            links[link + TURN], links[link + TAKEN] = m, t
            if queues[q + OUTPUTS] > 1:
                for k in output_columns(queues, q):
                    s = offset_of(queues[q + k], QUEUE_WORDS)
                    links[offset_of(queues[s + LINK], LINK_WORDS) + TAKEN] = t
            return q, wake
    return np.int64(-1), wake


@helper_function
def _can_send_over(queues: Any, links: Any, q: Any, link: Any, t: Any) -> Any:
    """Return whether a queue can send its first wavelet over a link in cycle ``t``.

    All of the wavelet's outputs must have room, and all of their links must be free.

    Args:
        queues, links: Flat tables of queues and links.
        q, link: Offsets of the queue and the link in these tables.
        t: The current cycle.
    """
    wants_link = False
    for k in output_columns(queues, q):
        s = offset_of(queues[q + k], QUEUE_WORDS)
        output_link = offset_of(queues[s + LINK], LINK_WORDS)
        wants_link |= output_link == link
        if not has_room(queues, s) or links[output_link + TAKEN] == t:
            return False
    return wants_link
