"""Cycles of the products with quantised weights on one PE: unpacking by 16-bit operations, scaling, multiply-adds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.isa.pe_costs import PeCosts

Operands = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """What turns codes that share 16-bit words into halves: vector operations, and elements of each kind a code."""

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


def _unpacked(a: Operands, c: PeCosts, u: Unpacking) -> float:
    """Cycles to unpack a tile, as many rows at once as there is scratch for."""
    codes, turns = a["K"] * a["N"], math.ceil(a["K"] / a["rows"])
    operations = u.operations + int(c.widen > 0)
    elements = codes * (u.shifts / c.shift + u.logic / c.logic + u.adds / c.half)
    return turns * (c.loop + operations * c.issue) + math.ceil(elements + (codes / c.widen if c.widen else 0))


def _products(a: Operands, c: PeCosts) -> float:
    """Cycles of a product with what was unpacked, with vectors of tokens or of outputs, whichever has the fewer."""
    turns = math.ceil(a["K"] / a["rows"])
    by_outputs = a["M"] * (turns * c.loop + c.rows(a["K"], a["N"], c.mac))
    by_tokens = a["K"] * (c.loop + c.rows(a["N"], a["M"], c.mac))
    return c.vector(a["M"] * a["N"], c.acc) + min(by_outputs, by_tokens)


def one_scale(a: Operands, c: PeCosts, u: Unpacking) -> float:
    """Cycles of a product whose sums are multiplied with scales, which are float32 or become it."""
    scales = 0.0 if c.widen else c.vector(a["N"], c.convert)
    scaling = min(a["M"] * c.vector(a["N"], c.scale_acc), c.rows(a["N"], a["M"], c.scale_acc))
    return _unpacked(a, c, u) + _products(a, c) + scales + scaling


def scale_a_group(a: Operands, c: PeCosts, u: Unpacking) -> float:
    """Cycles of a product whose codes are multiplied with scales before."""
    return _unpacked(a, c, u) + c.rows(a["K"], a["N"], c.scale) + _products(a, c)


def with_one_expert(a: Operands, c: PeCosts) -> float:
    """Cycles of a token's product with an expert whose codes are multiplied with scales before, its sums not zeroed.

    Codes that share a word are neighbours in a row, and an odd number of them may begin inside one.
    """
    words = a | {"N": a["N"] + a["N"] % 2}
    turns = math.ceil(a["K"] / a["rows"]) * c.loop
    products = c.rows(a["K"], a["N"], c.scale) + c.rows(a["K"], a["N"], c.mac)
    return _unpacked(words, c, (INT8, FP8, INT4)[a["coding"]]) + turns + products
