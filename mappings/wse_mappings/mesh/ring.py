"""Interleaved ring: a ring folded onto a line, with ring neighbours at most two PEs apart.

The order of ring positions on the line is 0, 2, 4, ..., 5, 3, 1. Source: He et al., WaferLLM, OSDI
2025 (arXiv 2502.04563), section on MeshGEMM.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.cuts.split import I32


def ring_place(pe: int, length: int) -> int:
    """Return the interleaved-ring position of the PE at index ``pe`` of a line.

    The ring visits every second PE of the line on the way out and the remaining PEs on the way
    back, so neighbours on the ring are at most two hops apart.

    >>> [ring_place(p, 5) for p in range(5)]
    [0, 4, 1, 3, 2]
    """
    return pe // 2 if pe % 2 == 0 else (length - (pe + 1) // 2) % length


def ring_pe(place: int, length: int) -> int:
    """Return the index on the line of the PE at position ``place`` of the interleaved ring.

    The ring visits every second PE of the line on the way out and the remaining PEs on the way
    back. The position is taken modulo the length.

    >>> [ring_pe(k, 5) for k in range(5)]
    [0, 2, 4, 3, 1]
    """
    place %= length
    return 2 * place if 2 * place < length else 2 * (length - place) - 1


def skew(line: int, length: int) -> I32:
    """Return the block that each PE of a line stores when MeshGEMM starts, int32 ``[length]``.

    MeshGEMM (He et al., OSDI 2025) is a distributed matrix product in which blocks move around a
    ring of PEs on every line. Without a shift, PE p would store block p. As in Cannon's algorithm,
    each line starts with its blocks shifted by a different distance: on line i, every PE stores the
    block of the PE that is s places further along the ring, where s is the ring position of PE i
    (`ring_place`).

    >>> skew(2, 5).tolist()
    [2, 0, 4, 1, 3]
    """
    pe = np.arange(length, dtype=np.int32)
    place = (ring_place(line, length) + np.where(pe % 2 == 0, pe // 2, length - (pe + 1) // 2)) % length
    return np.where(2 * place < length, 2 * place, 2 * (length - place) - 1).astype(np.int32)
