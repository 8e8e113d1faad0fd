"""Tables of the wavelet simulation, as one argument of its kernel and its oracle.

The constants below are the columns of the int32 tables. Three tables need an explanation:

- ``queues``: the columns are followed by eight slots, each with two words: 2 × (cycle from which
  the wavelet may move) + control bit, and payload. A row has 128 bytes.
- ``routes``: number of outputs; up to five output queues; number of control wavelets after which
  the position ends (0: never); next position, or -1 if another position must release it first;
  position of another colour that is released at the end, or -1; queue that wavelets come from.
- ``links``: cycle in which the link was last used; member that may use it next (round-robin); first
  member, and one past the last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Columns that change with every wavelet are not adjacent: the compiler would load two adjacent ones at once and stall.
HEAD, OUTPUTS, OUTPUT, LINK, CONTROLS, POSITION, CAPACITY, LATENCY, TAIL, SLOTS = 0, 2, 3, 8, 9, 10, 11, 12, 14, 16
QUEUE_WORDS, SLOT_COUNT, LAST_SLOT = 32, 8, 7
THREAD_WORDS, OP_WORDS, LINK_WORDS, PORTS = 8, 9, 4, 5
ROUTE_CONTROLS, ROUTE_NEXT, ROUTE_RELEASED, ROUTE_QUEUE = 6, 7, 8, 9
TAKEN, TURN, MEMBER, MEMBER_END = 0, 1, 2, 3
CURRENT, LAST, NOT_BEFORE, DONE, CHOICE, DELAYED = 0, 1, 2, 3, 4, 5
RECEIVE, SEND, ARRIVAL, ADDRESS, WORDS, AFTER, MARK, GAP, DELAY = 0, 1, 2, 3, 4, 5, 6, 7, 8


class WaveletTables(NamedTuple):
    """State of a machine simulated wavelet by wavelet, as tables that are updated in place.

    A wavelet is a 32-bit word that travels over links.

    Attributes:
        queues: int32 ``[queue, 32]``, queues of wavelets.
        routes: int32 ``[position, 10]``, settings of routers (switch positions).
        links: int32 ``[link, 4]``, physical links.
        members: int32 ``[n]``, indices of the queues that compete for each link, link by link.
        routers: int32 ``[router, 5]``, for each port of a router, the index of its link if several
            queues compete for it, else -1.
        threads: int32 ``[thread, 8]``, threads of PEs. The threads of a PE are contiguous.
        ops: int32 ``[operation, 9]``, vector operations.
        times: int32 ``[operation, 2]``, first cycle of each operation and the cycle after its last;
            -1 while unknown.
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
