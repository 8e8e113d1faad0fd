"""Reading of the list of (token, expert) pairs, and multiplication by routing weights.

`wse_kernels.compute.experts` describes the list. Vectors of pairs are stored in the same order.
"""

from __future__ import annotations

import numpy as np

from wse_kernels.codegen.elements import narrow, widen
from wse_kernels.codegen.jit import helper_function


@helper_function
def limited_index(f32, block, at, lane, count):
    """Read a token or expert index from a list of pairs, and clamp it to the valid range.

    Args:
        f32: SRAM as float32 elements [block, address, lane].
        block, at, lane: Block of PEs, address in SRAM, and lane (PE of the block) of the index.
        count: Number of valid indices. The result is at most ``count`` - 1.
    """
    return min(max(np.int64(f32[block, at, lane]), 0), count - 1)


@helper_function
def multiply_by_routing_weights(view, f32, block, vectors, pairs, P, lane_count):
    """Multiply the vector of each (token, expert) pair by its routing weight, in place.

    Args:
        view, f32, block: View that contains the vectors, float32 view that contains the list of
            pairs, and index of the block of PEs.
        vectors: Address of the first vector, distance between vectors, and number of elements per
            vector.
        pairs: Address of the list.
        P: Maximum number of pairs in it.
        lane_count: Number of PEs in the block.
    """
    first, stride, n = vectors
    for i in range(P):
        for e in range(first + i * stride, first + i * stride + n):
            for lane in range(lane_count):
                if i < f32[block, pairs, lane]:
                    old = view[block, e, lane]
                    view[block, e, lane] = narrow(widen(old) * f32[block, pairs + 3 + 3 * i, lane], old)
