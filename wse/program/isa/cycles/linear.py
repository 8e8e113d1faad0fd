"""Cycles of products of tiles, with weights that may be quantised.

M is the number of tokens, K of inputs, and N of outputs.

A product is vectorised over its tokens. A product of one token is vectorised over its output
features. Both are as in the released GEMM and GEMV kernels. The GEMV is a single mapped operation
over its K vectors, without a loop of its own. A few tokens are multiplied one after another if that
needs fewer cycles.
"""

from __future__ import annotations

import math

from wse.program.isa.cycles.unpacking import Unpacking, unpacking_cycles
from wse.program.isa.pe_costs import PeCosts


def matmul_cycles(c: PeCosts, M: int, K: int, N: int, add: int) -> float:
    """Return the cycles of multiplying M tokens by a ``[K, N]`` matrix, vectorised over the tokens.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Tokens, inputs and outputs.
        add: 1 to add to existing sums, 0 to clear the sums first.
    """
    zero = 0.0 if add else c.vector(M * N, c.acc)
    return zero + K * (c.loop + c.rows(N, M, c.mac))


def gemv_cycles(c: PeCosts, M: int, K: int, N: int) -> float:
    """Return the cycles of multiplying M tokens by a ``[K, N]`` matrix, one token after another.

    The product of a token is vectorised over the outputs.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Tokens, inputs and outputs.
    """
    return M * (c.vector(N, c.acc) + c.loop + c.rows(K, N, c.mac))


def one_scale_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of a product with quantised weights that have one scale per output.

    The sums are multiplied by the scales, which are first converted to float32 if necessary.

    Args:
        c: Costs of operations on the PE.
        unpacking: Operations that unpack the weights.
        M, K, N: Tokens, inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    scales = 0.0 if c.widen else c.vector(N, c.convert)
    scaling = min(M * c.vector(N, c.scale_acc), c.rows(N, M, c.scale_acc))
    return unpacking_cycles(c, unpacking, K, N, rows) + _unpacked_products(c, M, K, N, rows) + scales + scaling


def scale_a_group_cycles(c: PeCosts, unpacking: Unpacking, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of a product with quantised weights that are scaled before the product.

    A group of inputs shares a scale.

    Args:
        c: Costs of operations on the PE.
        unpacking: Operations that unpack the weights.
        M, K, N: Tokens, inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    return unpacking_cycles(c, unpacking, K, N, rows) + c.rows(K, N, c.scale) + _unpacked_products(c, M, K, N, rows)


def _unpacked_products(c: PeCosts, M: int, K: int, N: int, rows: int) -> float:
    """Return the cycles of multiplying M tokens by a ``[K, N]`` matrix that has been unpacked.

    The product is vectorised over tokens or over outputs, whichever is cheaper.

    Args:
        c: Costs of operations on the PE.
        M, K, N: Tokens, inputs and outputs.
        rows: Rows of weights that are unpacked at once.
    """
    iterations = math.ceil(K / rows)
    by_outputs = M * (iterations * c.loop + c.rows(K, N, c.mac))
    by_tokens = K * (c.loop + c.rows(N, M, c.mac))
    return c.vector(M * N, c.acc) + min(by_outputs, by_tokens)
