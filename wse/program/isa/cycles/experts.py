"""Cycle counts of the kernels for products with experts, over all (token, expert) pairs of a PE.

There are P pairs and M tokens, and an expert has K inputs and N outputs.
"""

from __future__ import annotations

import math
from typing import Final

from wse.number_formats import CODINGS
from wse.program.isa.cycles.linear import BY_CODING, power_cycles, run_cycles, unpacking_cycles
from wse.program.isa.pe_costs import PeCosts
from wse_mappings.rounding import ceil_div

_FP8: Final = CODINGS["fp8"].number
_MXFP4: Final = CODINGS["mxfp4"].number


def expert_pairs_cycles(c: PeCosts, M: int, A: int, P: int, groups: int, segments: int) -> float:
    """Return the cycles that a PE needs to list the (token, expert) pairs of its column of PEs.

    A pair is a token and one of its A selected experts. A column processes the pairs whose expert
    it stores:

    - If a column stores only some experts, its PEs read all M * A pairs in a loop, and write the
      pairs with these experts to the list.
    - If a column stores a part of every expert, the list has all pairs. Vector operations write it,
      without a loop over pairs.

    Args:
        c: Costs of operations on the PE.
        M, A: Number of tokens, and experts per token.
        P: Maximum number of pairs in the list.
        segments: Number of segments into which the columns of the region are divided.
        groups: Number of groups of columns in each segment; each group stores different experts.
            Both numbers are 1 if every column stores a part of every expert.
    """
    if groups * segments > 1:
        return _list_cycles(c, M * A) + _list_cycles(c, P)
    return c.vector(1, c.f32) + M * c.strided_vector(A, c.f32) + 2 * c.strided_vector(M * A, c.f32)


def _list_cycles(c: PeCosts, count: int) -> float:
    """Return the cycle count of a loop that reads token, expert and routing weight of each pair.

    Args:
        c: Costs of operations on the PE.
        count: Number of (token, expert) pairs.
    """
    return count * (c.loop + 3 * c.vector(1, c.f32))


def expert_in_cycles(c: PeCosts, product: float, P: int, N: int, weighted: int) -> float:
    """Return the cycle count of an expert layer's first product, for all (token, expert) pairs.

    Args:
        c: Costs of operations on the PE.
        product: Cycle count of the product for one pair.
        P: Maximum number of pairs.
        N: Number of outputs.
        weighted: 1 to multiply the outputs by the pair's router weight, else 0.
    """
    weighing = c.vector(N, c.acc) if weighted else 0.0
    return _list_cycles(c, P) + P * (c.vector(N, c.acc) + product + weighing)


def expert_out_cycles(c: PeCosts, product: float, P: int, M: int, K: int, N: int, weighted: int) -> float:
    """Return the cycle count of an expert layer's second product, for all (token, expert) pairs.

    The outputs of each pair are added to the sums of its token.

    Args:
        c: Costs of operations on the PE.
        product: Cycle count of the product for one pair.
        P: Maximum number of pairs.
        M: Number of tokens.
        K: Number of inputs.
        N: Number of outputs.
        weighted: 1 to multiply the inputs by the pair's router weight, else 0.
    """
    weighing = c.vector(K, c.act) if weighted else 0.0
    return c.vector(M * N, c.acc) + _list_cycles(c, P) + P * (weighing + product)


def expert_bias_cycles(c: PeCosts, P: int, M: int, N: int, parts: int, weighted: int, biases_per_pe: int) -> float:
    """Return the cycles needed to add the biases of experts for all (token, expert) pairs.

    The biases are divided among several PEs. A PE reads the whole list of pairs, but adds only the
    biases that it stores.

    Args:
        c: Costs of operations on the PE.
        P, M: Maximum number of pairs, and number of tokens.
        N, parts: Number of outputs of each part, and number of parts, such as gate and up.
        weighted: 1 to multiply the biases by the pair's router weight, else 0.
        biases_per_pe: Number of biases of each part that the PE stores.
    """
    local_pairs = min(P, M * (ceil_div(biases_per_pe - 1, max(1, N)) + 1))
    return _list_cycles(c, P) + local_pairs * parts * (1 + weighted) * c.vector(min(N, biases_per_pe), c.acc)


def one_expert_cycles(c: PeCosts, coding: int, K: int, N: int, rows: int) -> float:
    """Return the cycle count of the product of one token with an expert with quantised weights.

    Each weight is scaled before the product, and the product is added to existing sums. A word
    stores several neighbouring weights of a row. If N is odd, a row can begin in the middle of a
    word, so one additional weight per row is counted as unpacked.

    Args:
        c: Costs of operations on the PE.
        coding: Index of the storage format of the weights.
        K: Number of inputs.
        N: Number of outputs.
        rows: Number of rows of weights that are unpacked at once.
    """
    loops = math.ceil(K / rows) * c.loop
    products = c.rows(K, N, c.scale) + c.rows(K, N, c.mac)
    return unpacking_cycles(c, BY_CODING[coding], K, N + N % 2, rows) + loops + products


def one_mxfp4_expert_cycles(c: PeCosts, K: int, N: int, G: int, rows: int) -> float:
    """Return the cycle count of the product of one token with one expert that is stored in MXFP4.

    Args:
        c: Costs of operations on the PE.
        K, N: Number of inputs and outputs of the expert.
        G: Number of groups of inputs that share scales.
        rows: Number of rows of codes that are unpacked at once.
    """
    return one_expert_cycles(c, _MXFP4, K, N, rows) + power_cycles(c, N, G)


def one_fp8_blocks_expert_cycles(c: PeCosts, K: int, N: int, G: int, B: int, rows: int) -> float:
    """Return the cycle count of the product of one token with one expert in FP8 with block scales.

    Args:
        c: Costs of operations on the PE.
        K, N: Number of inputs and outputs of the expert.
        G: Number of groups of inputs that share scales.
        B: Number of blocks of outputs that share scales.
        rows: Number of rows of codes that are unpacked at once.
    """
    return one_expert_cycles(c, _FP8, K, N, rows) + run_cycles(c, N, G, B)
