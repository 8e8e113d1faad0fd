"""Kernels that move heads between layouts, for attention with a latent cache.

They convert between vectors that are split over rows and vectors that are split over columns. A row
of PEs has Hl of the H heads. ``heads``, ``first`` and ``feature_ordinals`` are tables of ordinals
(indices from 1); 0 is padding.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, f32, numbers
from wse.program.isa.pe_costs import PeCosts


def _place_heads_cycles(c: PeCosts, M: int, H: int, Hl: int, n: int) -> float:
    """Return how many cycles kernel ``place_heads`` takes.

    A row of PEs stores only some of the heads. The kernel clears an output with room for all heads,
    and copies each of these heads to its position in the output.

    Args:
        c: Costs of operations on the PE.
        M, H, Hl: Number of tokens, heads in the model, and heads in the row.
        n: Number of features per head on the PE.
    """
    return c.vector(M * H * n, c.acc) + M * Hl * (c.loop + c.vector(n, c.acc))


def _place_rotated_cycles(c: PeCosts, M: int, H: int, Hl: int, n: int) -> float:
    """Return how many cycles kernel ``place_rotated`` takes.

    A row of PEs stores some features of some heads, and a column needs other features of all heads.
    The kernel clears an output with room for all features of the column, and copies those features
    that the row stores. It looks up each feature of each head in the row, and then copies it for
    all tokens at once.

    Args:
        c: Costs of operations on the PE.
        M, H, Hl: Number of tokens, heads in the model, and heads in the row.
        n: Number of features per head that the column needs.
    """
    return c.vector(M * H * n, c.acc) + Hl * n * (c.loop + c.vector(M, c.acc))


LATENT: Final = (
    Kernel(
        name="place_heads",
        operands=(acc("x", "M Hl n"), f32("heads", "Hl"), acc("out", "M H n", output=True), *numbers("M H Hl n")),
        work="M H n",
        cycles=_place_heads_cycles,
    ),
    Kernel(
        name="place_rotated",
        operands=(
            acc("x", lambda M, Hl, K, stride: (M - 1) * stride + Hl * K),
            f32("heads", "Hl"),
            f32("first", ""),
            f32("feature_ordinals", "n"),
            acc("out", "M H n", output=True),
            *numbers("M H Hl K n stride"),
        ),
        work="M H n",
        cycles=_place_rotated_cycles,
    ),
    Kernel(
        name="pick_rotated",
        operands=(
            acc("x", "Hl K"),
            f32("first", ""),
            f32("feature_ordinals", "n"),
            acc("out", "Hl n", output=True),
            *numbers("Hl K n"),
        ),
        work="Hl n",
        cycles=lambda c, Hl, n: c.vector(Hl * n, c.acc) + n * (c.loop + c.vector(Hl, c.acc)),
    ),
    Kernel(
        name="set_heads",
        operands=(act("x", "Hl n"), f32("heads", "Hl"), acc("out", "H n", output=True), *numbers("H Hl n")),
        work="Hl n",
        cycles=lambda c, Hl, n: Hl * (c.loop + c.vector(n, c.convert)),
    ),
    Kernel(
        name="pick_heads",
        operands=(act("x", "M H n"), f32("heads", "Hl"), act("out", "Hl M n", output=True), *numbers("M H Hl n")),
        work="M Hl n",
        cycles=lambda c, M, Hl, n: Hl * M * (c.loop + c.vector(n, c.act)),
    ),
    Kernel(
        name="finish_heads",
        operands=(
            acc("x", "M H n"),
            f32("sums", "M H"),
            f32("heads", "Hl"),
            act("out", "Hl M n", output=True),
            *numbers("M H Hl n"),
        ),
        work="M Hl n",
        cycles=lambda c, M, Hl, n: Hl * M * (c.loop + c.function + c.vector(n, c.convert)),
    ),
    Kernel(
        name="redistribute_block",
        operands=(act("x", "M K"), acc("out", "M N", output=True), *numbers("M K N first_col to_rows")),
        work="M N",
        operation_ps=1400,
        cycles=lambda c, M, N: c.vector(M * N, c.acc) + M * (c.loop + c.vector(N, c.convert)),
    ),
)
