"""What a compute kernel cannot do without on one PE: multiply-adds, and the weights and cache entries that it reads.

No machine's rate is in here: divided by the rates of a PE these give bounds below which no software gets. Only products
have multiply-adds; trained vectors, which are read once and are short, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final, NamedTuple

from wse.isa.instructions import OPERANDS
from wse.number_formats import CODINGS

Operands = dict[str, int]
Read = Callable[[Operands, Mapping[str, int]], int]


class Work(NamedTuple):
    """Multiply-adds of one call on one PE, and bytes of weights and cache entries, each counted once."""

    macs: int
    bytes: int


NOTHING: Final = Work(0, 0)


def kernel_work(kernel: str, a: Operands, element_bytes: Mapping[str, int]) -> Work:
    """The work of one call of ``kernel`` with operands by name; ``element_bytes`` are those of each view."""
    if kernel not in _PRODUCTS:
        return NOTHING
    macs, read = _PRODUCTS[kernel]
    return Work(prod(a[name] for name in macs.split()), read(a, element_bytes))


def _elements(kernel: str, operand: str, sizes: str) -> Read:
    """Reads of an operand that holds the product of ``sizes`` elements."""
    view = dict(OPERANDS[kernel])[operand]
    return lambda a, element_bytes: prod(a[name] for name in sizes.split()) * element_bytes[view]


def _codes(coding: str) -> Read:
    """Reads of a tile of codes with its scales, of which there is one for each output without groups."""

    def read(a: Operands, element_bytes: Mapping[str, int]) -> int:
        scales = a["N"] * a.get("G", 1) * element_bytes["wgt"]
        return CODINGS[coding].code_bytes(a["K"], a["N"]) + scales

    return read


def _experts(tile: Read) -> Read:
    """Reads of pairs' experts: one tile a pair, but no more than are held."""
    return lambda a, element_bytes: min(a["P"], a["held"]) * tile(a, element_bytes)


def _expert_codes(a: Operands, element_bytes: Mapping[str, int]) -> int:
    return _codes(tuple(CODINGS)[a["coding"]])(a, element_bytes)


_PRODUCTS: Final[dict[str, tuple[str, Read]]] = {
    "matmul": ("M K N", _elements("matmul", "w", "K N")),
    "matmul_act": ("M K N", _elements("matmul_act", "w", "K N")),
    "gemv": ("K N", _elements("gemv", "w", "K N")),
    "matmul_int8": ("M K N", _codes("int8")),
    "matmul_fp8": ("M K N", _codes("fp8")),
    "matmul_int4": ("M K N", _codes("int4")),
    "attention_scores": ("M Hk share F T", _elements("attention_scores", "k", "Hk F T")),
    "attention_values": ("M Hk share F T", _elements("attention_values", "v", "Hk F T")),
    "attention_online": ("M Hk share F T", _elements("attention_online", "v", "Hk F T")),
    "expert_in": ("P K N", _experts(_elements("expert_in", "w", "K N"))),
    "expert_out": ("P K N", _experts(_elements("expert_out", "w", "K N"))),
    "expert_in_quantised": ("P K N", _experts(_expert_codes)),
    "expert_out_quantised": ("P K N", _experts(_expert_codes)),
}
