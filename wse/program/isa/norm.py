"""Normalisation: sums over a PE's features, and scaling by the sums over all PEs.

M is the number of tokens; K or N is the number of features on a PE.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, f32, numbers, wgt
from wse.program.isa.pe_costs import PeCosts
from wse_mappings.rounding import ceil_div


def _scale_share_cycles(c: PeCosts, M: int, n: int, parts: int, length: int, groups: int) -> float:
    """Return how many cycles kernel ``rms_scale_share`` takes on its slowest PE.

    The kernel divides vectors by their root mean square. All PEs of a column store the same
    vectors. The column is divided into groups, and each PE of a group scales a slice of every
    vector. The slowest PE is one with the longest slice.

    Args:
        c: Costs of operations on the PE.
        M: Number of tokens.
        n, parts: Features per vector, and vectors per token.
        length: Number of PEs in the column.
        groups: Number of groups of PEs.
    """
    return M * (c.loop + 2 * c.function + parts * c.vector(ceil_div(n, length // groups), c.scale_acc))


def _layer_scale_cycles(c: PeCosts, M: int, K: int, offset: int, biased: int) -> float:
    """Return how many cycles kernel ``layer_scale`` takes.

    The kernel applies a layer norm, given the sum of each token's features and of their squares.
    For each token, it computes the mean and the standard deviation, and then performs three to five
    vector operations.

    Args:
        c: Costs of operations on the PE.
        M, K: Number of tokens, and features per token on the PE.
        offset: Number added to the gain; 0 saves one vector operation.
        biased: Whether a bias is added; 0 saves one vector operation.
    """
    mean = 4 * c.vector(1, c.f32)
    return M * (c.loop + 2 * c.function + mean + (3 + biased + (offset != 0)) * c.vector(K, c.act))


def _layer_scale_sums_cycles(c: PeCosts, M: int, N: int) -> float:
    """Return how many cycles kernel ``layer_scale_sums`` takes.

    The kernel applies a layer norm to the sums of a matrix product whose inputs were not
    normalised. Each sum needs two multiply-adds: the first subtracts the mean times the product of
    gain and weights, and the second multiplies by the scale and adds the product of bias and
    weights.

    Args:
        c: Costs of operations on the PE.
        M, N: Number of tokens, and outputs of the product on the PE.
    """
    mean = 4 * c.vector(1, c.f32)
    return M * (c.loop + 2 * c.function + mean + 2 * c.vector(N, c.scale_acc))


NORM: Final = (
    Kernel(
        name="sum_squares",
        operands=(act("x", "M K"), f32("sums", "M", output=True), *numbers("M K")),
        work="M K",
        cycles=lambda c, M, K: M * (c.loop + c.vector(K, c.square)),
        cycles_over_heads=lambda c, M, K: c.loop + K * c.strided_vector(M, c.square),
    ),
    Kernel(
        name="rms_scale",
        operands=(
            act("x", "M K"),
            f32("sums", "M"),
            wgt("gain", "K"),
            act("out", "M K", output=True),
            *numbers("M K size eps_atto offset"),
        ),
        work="M K",
        operation_ps=300,
        cycles=lambda c, M, K, offset: M * (c.loop + 2 * c.function + (2 + (offset != 0)) * c.vector(K, c.act)),
        cycles_over_heads=lambda c, M, K, offset: (
            c.loop + M * 2 * c.function + K * (2 + (offset != 0)) * c.strided_vector(M, c.act)
        ),
    ),
    Kernel(
        name="gain_sum_squares",
        operands=(
            act("x", "M K"),
            acc("sums", "M", output=True),
            wgt("gain", "K"),
            act("out", "M K", output=True),
            *numbers("M K offset"),
        ),
        work="M K",
        cycles=lambda c, M, K, offset: M * (c.loop + c.vector(K, c.square) + (1 + (offset != 0)) * c.vector(K, c.act)),
        cycles_over_heads=lambda c, M, K, offset: (
            c.loop + K * (c.strided_vector(M, c.square) + (1 + (offset != 0)) * c.strided_vector(M, c.act))
        ),
    ),
    Kernel(
        name="rms_factors",
        operands=(f32("sums", "M"), *numbers("M size eps_atto")),
        work="M",
        operation_ps=3000,
        cycles=lambda c, M: M * (c.loop + 2 * c.function),
        cycles_over_heads=lambda c, M: c.loop + M * 2 * c.function,
    ),
    Kernel(
        name="scale_heads",
        operands=(acc("x", "M N"), f32("factors", "M"), *numbers("M N")),
        work="M N",
        cycles=lambda c, M, N: M * (c.loop + c.vector(N, c.scale_acc)),
        cycles_over_heads=lambda c, M, N: c.loop + N * c.strided_vector(M, c.scale_acc),
    ),
    Kernel(
        name="rms_scale_sums",
        operands=(acc("x", "M N"), acc("sums", "M"), *numbers("M N size eps_atto")),
        work="M N",
        cycles=lambda c, M, N: M * (c.loop + 2 * c.function + c.vector(N, c.scale_acc)),
    ),
    Kernel(
        name="rms_scale_share",
        operands=(acc("x", "M parts n"), acc("sums", "M"), *numbers("M n parts size eps_atto length groups")),
        work="M parts n",
        cycles=_scale_share_cycles,
    ),
    Kernel(
        name="l2_scale",
        operands=(act("x", "M K"), f32("sums", "M"), *numbers("M K size eps_atto")),
        work="M K",
        cycles=lambda c, M, K: M * (c.loop + 2 * c.function + c.vector(K, c.act)),
        cycles_over_heads=lambda c, M, K: c.loop + M * 2 * c.function + K * c.strided_vector(M, c.act),
    ),
    Kernel(
        name="moments",
        operands=(act("x", "M K"), f32("sums", lambda M: 2 * M, output=True), *numbers("M K")),
        work="M K",
        cycles=lambda c, M, K: M * (c.loop + c.vector(K, c.square) + c.vector(K, c.f32)),
    ),
    Kernel(
        name="gain_moments",
        operands=(
            act("x", "M K"),
            acc("sums", lambda M: 2 * M, output=True),
            wgt("gain", "K"),
            act("out", "M K", output=True),
            *numbers("M K"),
        ),
        work="M K",
        cycles=lambda c, M, K: M * (c.loop + c.vector(K, c.square) + c.vector(K, c.f32) + c.vector(K, c.act)),
    ),
    Kernel(
        name="layer_scale_sums",
        operands=(
            acc("x", "M N"),
            acc("sums", lambda M: 2 * M),
            f32("gain_product", "N"),
            f32("bias_product", "N"),
            *numbers("M N size eps_atto biased"),
        ),
        work="M N",
        cycles=_layer_scale_sums_cycles,
    ),
    Kernel(
        name="layer_scale",
        operands=(
            act("x", "M K"),
            f32("sums", lambda M: 2 * M),
            wgt("gain", "K"),
            wgt("bias", "K"),
            act("out", "M K", output=True),
            *numbers("M K size eps_atto offset biased"),
        ),
        work="M K",
        operation_ps=300,
        cycles=_layer_scale_cycles,
    ),
)
