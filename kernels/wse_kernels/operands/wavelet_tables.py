"""Tables of the wavelet simulation, as one argument of its kernel and its oracle."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["WaveletTables"]


class WaveletTables(NamedTuple):
    """State of a machine that is simulated wavelet by wavelet, as tables that change in place.

    A wavelet is a 32-bit word that travels over links.

    Attributes:
        queues: int32 ``[queue, 32]``, queues of wavelets.
        routes: int32 ``[position, 10]``, switch positions.
        links: int32 ``[link, 4]``, physical links.
        members: int32 ``[n]``, queues that compete for a link.
        routers: int32 ``[router, 5]``, for each port the link that several queues compete for, or
            -1 if there is none.
        threads: int32 ``[thread, 8]``, threads of PEs. The threads of a PE are contiguous.
        ops: int32 ``[operation, 9]``, vector operations.
        times: int32 ``[operation, 2]``, first cycle of each operation and the cycle after its last;
            -1 while not yet known.
        memory: float32 ``[word]``, words of all PEs.
    """

    queues: Any
    routes: Any
    links: Any
    members: Any
    routers: Any
    threads: Any
    ops: Any
    times: Any
    memory: Any
