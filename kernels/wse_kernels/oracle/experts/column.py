"""Even division of columns and experts, and the list of (token, expert) pairs of a column."""

from __future__ import annotations

import numpy as np

from wse_kernels.oracle.memory import I64


def starts_of_parts(total: int, parts: int) -> I64:
    """Divide ``total`` items into parts whose sizes differ by at most one, and return their starts.

    The larger parts come first.

    Args:
        total: Number of items (columns of PEs or experts).
        parts: Number of parts (segments of columns or groups of a segment).

    Returns:
        int64 ``[parts + 1]``: start of each part, and end of the last part.
    """
    sizes = [total // parts + (part < total % parts) for part in range(parts)]
    return np.concatenate([[0], np.cumsum(sizes)])


def pairs_of_column(pe, pairs, shape):
    """Return the (token, expert, routing weight) triples from a PE's list of pairs.

    Token and expert indices are clamped to the valid range.

    Args:
        pe: PE whose SRAM is read.
        pairs: Address of the list of pairs.
        shape: Sizes of the product, among them the maximum number of pairs and the numbers of
            tokens and experts.
    """
    count = min(int(pe.read("f32", pairs, 1)[0]), shape.P)
    rows = pe.read("f32", pairs + 1, max(count, 0), 3)
    last_token, last_expert = shape.M - 1, shape.local_experts - 1
    return [(min(max(int(t), 0), last_token), min(max(int(e), 0), last_expert), weight) for t, e, weight in rows]
