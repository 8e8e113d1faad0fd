"""The row sums of dist-GEMM-T: in round t line i adds its partials into the PE ``t`` places back on the ring.

Two opposite chains converge on the root, which adds the stream from the low side and then the one from the high side.
Source: He et al., WaferLLM, OSDI 2025, dist-GEMM-T.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.ring import ring_pe, ring_place
from wse_mappings.schedule import Arrival, LineSchedule, varied


def _roots(length: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    return np.array(
        [[ring_pe(ring_place(line, length) - t, length) for line in range(length)] for t in range(length)], np.int32
    )


def ring_reduce(length: int) -> LineSchedule:
    """Sum every line of a square into the root of its round."""
    groups = [
        [(pe, pe + 1, Arrival.ADD) for pe in range(root)]
        + [(pe, pe - 1, Arrival.ADD) for pe in range(length - 1, root, -1)]
        for root in range(length)
    ]
    ends = sorted({0, min(1, length - 1), length // 2, max(length - 2, 0), length - 1})
    return varied("ring_reduce", length, groups, _roots(length), colours=4, slowest=tuple(ends))


def ring_keep(length: int) -> LineSchedule:
    """At the root of each round, put the sum where the result is kept; nothing travels."""
    groups = [[(root, root, Arrival.KEEP)] for root in range(length)]
    return varied("ring_keep", length, groups, _roots(length), colours=0)
