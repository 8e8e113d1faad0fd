"""Flat tables of the simulated machine, and operations on its queues of wavelets."""

from __future__ import annotations

from typing import Any, NamedTuple

from wse_kernels.codegen.jit import helper_function
from wse_kernels.operands.wavelet_tables import CAPACITY, HEAD, LAST_SLOT, LATENCY, OUTPUT, OUTPUTS, SLOTS, TAIL

INDEX = 0x7FFFFFFF  # mask that tells the compiler that an index is not negative and need not wrap around
NEVER = 2**30  # cycle of an event that does not happen


class FlatTables(NamedTuple):
    """State of the simulated machine as tables, some of them flattened for fast access.

    Attributes:
        queues: Queues of wavelets (32-bit words in transit), flattened.
        payloads: The memory of ``queues`` as float32.
        routes, members: Switch positions (settings of routers), and queues that compete for a link,
            as in `WaveletTables`.
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


@helper_function
def offset_of(number: Any, words: Any) -> Any:
    """Return the offset of a row in a flat table.

    ``number`` is masked to tell the compiler that it is not negative.

    Args:
        number: Index of the row.
        words: Number of words per row.
    """
    return (number & INDEX) * words


@helper_function
def is_waiting(queues: Any, q: Any) -> Any:
    """Return whether a queue contains a wavelet and its router is currently set to forward it.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return queues[q + TAIL] != queues[q + HEAD] and queues[q + OUTPUTS] > 0


@helper_function
def first_wavelet(queues: Any, q: Any) -> Any:
    """Return the offset of the first wavelet in a queue.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return q + SLOTS + 2 * (queues[q + HEAD] & LAST_SLOT)


@helper_function
def ready_cycle(queues: Any, q: Any) -> Any:
    """Return the cycle from which the first wavelet in a queue may move.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return queues[first_wavelet(queues, q)] >> 1


@helper_function
def has_room(queues: Any, q: Any) -> Any:
    """Return whether a queue has room for another wavelet.

    ``q`` is the offset of the queue in the flat table of queues.
    """
    return queues[q + TAIL] - queues[q + HEAD] < queues[q + CAPACITY]


@helper_function
def output_columns(queues: Any, q: Any) -> Any:
    """Return the columns of the queue table that contain a queue's targets.

    A target is the index of a queue to which the router currently forwards the wavelets of the
    queue. ``q`` is the offset of the queue's row in the flat table.
    """
    return range(OUTPUT, OUTPUT + (queues[q + OUTPUTS] & 7))


@helper_function
def append_wavelet(queues: Any, payloads: Any, q: Any, t: Any, control: Any, value: Any) -> Any:
    """Append a wavelet that enters a queue in cycle ``t``.

    Args:
        queues, payloads: Flat table of queues, and the same memory with the data type of ``value``.
        q: Offset of the queue in the table.
        t: The current cycle.
        control, value: Control bit and payload. They are stored next to each other, because they
            are loaded together.
    """
    place = q + SLOTS + 2 * (queues[q + TAIL] & LAST_SLOT)
    queues[place] = 2 * (t + queues[q + LATENCY]) + control
    payloads[place + 1] = value
    queues[q + TAIL] += 1
