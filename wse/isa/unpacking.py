"""Cycles of unpacking quantised weights by 16-bit operations, and of the products with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.isa.pe_costs import PeCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """The unpacking of codes that share 16-bit words to halves: vector operations, and elements of each kind a code."""

    operations: int
    shifts: float
    logic: float
    adds: float


INT8: Final = Unpacking(operations=5, shifts=1 / 2, logic=3 / 2, adds=1)
"""Two codes a word, the upper one shifted down, the lower one masked; exclusive or with 0x6480 makes the half
1024 + 128 + code, and 1152 is taken off. The exponent that is put on as bits is from Kim et al., arXiv 2211.10017."""
INT4: Final = Unpacking(operations=11, shifts=3 / 4, logic=7 / 4, adds=1)
"""Four codes a word, three of them shifted and three masked; exclusive or with 0x6408, and 1032 is taken off."""
FP8: Final = Unpacking(operations=5, shifts=3 / 2, logic=1, adds=0)
"""Two codes a word; in the upper half an arithmetic shift by 1 and a mask leave the bits of the half that is the
256th part, a factor that the scale takes in; the lower one is shifted up first."""

_BY_CODING: Final = (INT8, FP8, INT4)


def one_scale(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Cycles of a product whose sums are multiplied with scales, which are float32 or become it."""
    scales = 0.0 if c.widen else c.vector(N, c.convert)
    scaling = min(M * c.vector(N, c.scale_acc), c.rows(N, M, c.scale_acc))
    return _unpacked(c, unpacking, K, N, rows) + _products(c, M, K, N, rows) + scales + scaling


def scale_a_group(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Cycles of a product whose codes are multiplied with scales before."""
    return _unpacked(c, unpacking, K, N, rows) + c.rows(K, N, c.scale) + _products(c, M, K, N, rows)


def one_expert(c: PeCosts, coding: int, K: int, N: int, rows: int) -> float:
    """Cycles of a token's product with an expert whose codes are multiplied with scales before, its sums not zeroed.

    Codes that share a word are neighbours in a row, and an odd number of them may begin inside one.
    """
    loops = math.ceil(K / rows) * c.loop
    products = c.rows(K, N, c.scale) + c.rows(K, N, c.mac)
    return _unpacked(c, _BY_CODING[coding], K, N + N % 2, rows) + loops + products


def _unpacked(c: PeCosts, u: Unpacking, K: int, N: int, rows: int) -> float:
    """Cycles to unpack a tile, as many rows at once as there is scratch for."""
    codes, turns = K * N, math.ceil(K / rows)
    operations = u.operations + int(c.widen > 0)
    elements = codes * (u.shifts / c.shift + u.logic / c.logic + u.adds / c.half)
    return turns * (c.loop + operations * c.issue) + math.ceil(elements + (codes / c.widen if c.widen else 0))


def _products(c: PeCosts, M: int, K: int, N: int, rows: int) -> float:
    """Cycles of a product with what was unpacked, with vectors of tokens or of outputs, whichever has the fewer."""
    turns = math.ceil(K / rows)
    by_outputs = M * (turns * c.loop + c.rows(K, N, c.mac))
    by_tokens = K * (c.loop + c.rows(N, M, c.mac))
    return c.vector(M * N, c.acc) + min(by_outputs, by_tokens)
