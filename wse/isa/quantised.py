"""Tile products with quantised weights, which are unpacked a few rows at a time into the scratch ``codes``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wse.isa.kernel import Kernel
from wse.isa.operands import acc, act, numbers, raw, wgt
from wse.isa.unpacking import FP8, INT4, INT8, Unpacking, one_scale, scale_a_group
from wse.number_formats import CODINGS


def tile_bytes(coding: str, b: Mapping[str, int], K: int, N: int, G: int = 1) -> int:
    """Bytes of a tile of codes and of its scales, of which there is one for each output and group."""
    return CODINGS[coding].code_bytes(K, N) + N * G * b["wgt"]


def _products(M: int, K: int, N: int) -> int:
    return M * K * N


def _one_scale(name: str, coding: str, unpacking: Unpacking) -> Kernel:
    return Kernel(
        name=name,
        operands=(
            act("x", "M K"),
            raw("w", "K N"),
            wgt("scale", "N"),
            act("codes", "rows N", output=True),
            acc("out", "M N", output=True),
            *numbers("M K N rows"),
        ),
        work=_products,
        macs=_products,
        read_bytes=lambda b, K, N: tile_bytes(coding, b, K, N),
        cycles=lambda c, M, K, N, rows: one_scale(c, unpacking, M, K, N, rows),
    )


QUANTISED: Final = (
    _one_scale("matmul_int8", "int8", INT8),
    _one_scale("matmul_fp8", "fp8", FP8),
    Kernel(
        name="matmul_int4",
        operands=(
            act("x", "M K"),
            raw("w", lambda K, N: (K + 1) // 2 * N),
            raw("groups", "K"),
            wgt("scale", "G N"),
            act("codes", "rows N", output=True),
            acc("out", "M N", output=True),
            *numbers("M K N G rows"),
        ),
        work=_products,
        macs=_products,
        read_bytes=lambda b, K, N, G: tile_bytes("int4", b, K, N, G),
        cycles=lambda c, M, K, N, rows: scale_a_group(c, INT4, M, K, N, rows),
    ),
)
