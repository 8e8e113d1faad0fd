"""Cycles of the compute kernels on one PE.

A kernel is a number of vector operations and scalar work. A vector operation over n elements takes

    issue + ceil(n / width)

cycles, the width by operation and element type as the vendor's SIMD table gives it for the generation, divided by the
software profile's ratio of bank conflicts where an operation reads two operands from SRAM. Equal operations that one
mapped operation makes, such as the rows of a product, have a cheaper issue each. Functions such as exp run on the
scalar library, one element at a time; a turn of a loop around vector operations costs its back edge. The vector of a
matrix product is its tokens, that of a product of one token its output features, as in the released GEMM and GEMV
kernels; the latter is a single mapped operation over its K vectors, without a loop of its own. Sources:
the costs of issue, conflicts, loops and functions are the software profile's, each with its source there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.isa.instructions import PICO
from wse.isa.pe_costs import PeCosts
from wse.isa.quantised_cost import FP8, INT4, INT8, one_scale, scale_a_group, with_one_expert
from wse_mappings.cuts.split import ceil_div

Operands = dict[str, int]


def kernel_cycles(kernel: str, a: Operands, c: PeCosts) -> float:
    """Cycles of one call of ``kernel`` with operands by name. Raises KeyError for a kernel without a cost."""
    return _COSTS[kernel](a, c)


def _matmul(a: Operands, c: PeCosts) -> float:
    zero = 0.0 if a["add"] else c.vector(a["M"] * a["N"], c.acc)
    return zero + a["K"] * (c.loop + c.rows(a["N"], a["M"], c.mac))


def _rope(a: Operands, c: PeCosts) -> float:
    heads = a["Hq"] + a["Hk"]
    rounding = c.vector((heads + a["Hk"]) * a["F"], c.convert)
    return a["M"] * (c.loop + _turning(a, c) + heads * 6 * c.vector(a["R"] // 2, c.acc) + rounding)


def _rotate(a: Operands, c: PeCosts) -> float:
    return a["M"] * (c.loop + _turning(a, c) + a["H"] * 6 * c.vector(a["R"] // 2, c.act))


def _turning(a: Operands, c: PeCosts) -> float:
    """Cosines and sines of a token, and their multiplier where it is not 1."""
    half = a["R"] // 2
    scaled = 0.0 if a["multiplier_pico"] == PICO else 2 * c.vector(half, c.f32)
    return half * (2 * c.function) + scaled


def _split_heads(a: Operands, c: PeCosts) -> float:
    return a["M"] * (c.loop + c.vector((a["Hq"] + 2 * a["Hk"]) * a["F"], c.convert))


def _scale_queries(a: Operands, c: PeCosts) -> float:
    return a["M"] * (c.loop + 2 * c.function + c.vector(a["n"], c.act))


def _kv_append(a: Operands, c: PeCosts) -> float:
    return a["tokens"] * (c.loop + c.vector(a["E"], c.act) + c.vector(a["Ev"], c.act))


def _attention_scores(a: Operands, c: PeCosts) -> float:
    heads = a["M"] * a["Hk"] * a["share"]
    zero = 0.0 if a["add"] else c.vector(heads * a["T"], c.acc)
    return zero + heads * (c.loop + c.rows(a["F"], a["T"], c.mac))


def _attention_max(a: Operands, c: PeCosts) -> float:
    return a["M"] * a["H"] * (c.vector(a["T"], c.f32) + c.vector(a["T"], c.largest))


def _attention_exp(a: Operands, c: PeCosts) -> float:
    each = 2 * c.vector(a["T"], c.f32) + a["T"] * c.function + c.vector(a["T"], c.convert)
    return a["M"] * a["H"] * (c.loop + each)


def _attention_values(a: Operands, c: PeCosts) -> float:
    heads = a["M"] * a["Hk"] * a["share"]
    return c.vector(heads * a["F"], c.acc) + heads * (c.loop + c.rows(a["T"], a["F"], c.mac))


def _attention_online(a: Operands, c: PeCosts) -> float:
    heads = a["M"] * a["Hk"] * a["share"]
    weights = c.vector(a["T"], c.f32) + c.vector(a["T"], c.largest) + (a["T"] + 1) * c.function
    values = c.vector(a["F"], c.acc) + c.rows(a["T"], a["F"], c.mac)
    return heads * (c.loop + weights + values)


def _activate(a: Operands, c: PeCosts) -> float:
    n, gated = a["M"] * a["n"], a["gated"]
    functions, alone, gating = _ACTIVATION_WORK[a["function"]]
    operations = alone + gated * gating
    return (1 + gated) * c.vector(n, c.convert) + n * functions * c.function + operations * c.vector(n, c.f32)


_ACTIVATION_WORK: Final = ((2, 1, 1), (1, 6, 1), (1, 3, 1), (2, 3, 3))
"""Of each activation function by number (SiLU, GELU by tanh and by erf, clamped SiLU): scalar functions (exp and
reciprocal, tanh, erf), vector operations, and those of the gating."""


def _rms_scale(a: Operands, c: PeCosts) -> float:
    return a["M"] * (c.loop + 2 * c.function + (2 + (a["offset"] != 0)) * c.vector(a["K"], c.act))


def _layer_scale(a: Operands, c: PeCosts) -> float:
    mean = 4 * c.vector(1, c.f32)
    return a["M"] * (c.loop + 2 * c.function + mean + (4 + (a["offset"] != 0)) * c.vector(a["K"], c.act))


def _place_heads(a: Operands, c: PeCosts) -> float:
    return c.vector(a["M"] * a["H"] * a["n"], c.acc) + a["M"] * a["Hl"] * (c.loop + c.vector(a["n"], c.acc))


def _place_rotated(a: Operands, c: PeCosts) -> float:
    """Every feature that the column wants is compared with those of the row, and brought for all tokens at once."""
    return c.vector(a["M"] * a["H"] * a["n"], c.acc) + a["Hl"] * a["n"] * (c.loop + c.vector(a["M"], c.acc))


def _router_scores(a: Operands, c: PeCosts) -> float:
    """Sigmoid: exp and a division an element. Softmax: exp alone, and passes for maximum, difference, sum and scale."""
    exps, passes = a["E"] * c.function, c.vector(a["E"], c.f32)
    if a["sigmoid"]:
        return a["M"] * (c.loop + 2 * exps + passes)
    return a["M"] * (c.loop + c.vector(a["E"], c.largest) + exps + c.function + 3 * passes)


def _router_limit(a: Operands, c: PeCosts) -> float:
    """Two maxima of each group; then a maximum over the groups for each one kept, and one pass that masks the rest."""
    groups = a["groups"] * (c.loop + 2 * c.vector(ceil_div(a["E"], a["groups"]), c.largest))
    return a["M"] * (groups + a["kept"] * (c.loop + c.vector(a["groups"], c.largest)) + c.vector(a["E"], c.f32))


def _router_choose(a: Operands, c: PeCosts) -> float:
    """For each choice the maximum and a pass that finds where it is; then the sum, its inverse and the scaling."""
    one = c.loop + c.vector(a["E"], c.largest) + c.vector(a["E"], c.f32)
    divided = c.vector(a["A"], c.f32) + c.function if a["divided"] else 0.0
    return a["M"] * (c.loop + a["A"] * one + divided + c.vector(a["A"], c.f32))


def _listed(count: int, c: PeCosts) -> float:
    """A turn of a loop over pairs, each with its token, expert and weight read one by one."""
    return count * (c.loop + 3 * c.vector(1, c.f32))


def _expert_in(a: Operands, c: PeCosts, product: float) -> float:
    weighed = c.vector(a["N"], c.acc) if a["weighed"] else 0.0
    return _listed(a["P"], c) + a["P"] * (c.vector(a["N"], c.acc) + product + weighed)


def _expert_out(a: Operands, c: PeCosts, product: float) -> float:
    weighed = c.vector(a["K"], c.act) if a["weighed"] else 0.0
    return c.vector(a["M"] * a["N"], c.acc) + _listed(a["P"], c) + a["P"] * (weighed + product)


def _expert_bias(a: Operands, c: PeCosts) -> float:
    return _listed(a["P"], c) + a["P"] * (1 + a["weighed"]) * c.vector(a["N"], c.acc)


_COSTS: Final[dict[str, Callable[[Operands, PeCosts], float]]] = {
    "matmul": _matmul,
    "matmul_act": _matmul,
    "gemv": lambda a, c: c.vector(a["N"], c.acc) + c.loop + c.rows(a["K"], a["N"], c.mac),
    "matmul_int8": lambda a, c: one_scale(a, c, INT8),
    "matmul_fp8": lambda a, c: one_scale(a, c, FP8),
    "matmul_int4": lambda a, c: scale_a_group(a, c, INT4),
    "sum_squares": lambda a, c: a["M"] * (c.loop + c.vector(a["K"], c.square)),
    "rms_scale": _rms_scale,
    "l2_scale": lambda a, c: a["M"] * (c.loop + 2 * c.function + c.vector(a["K"], c.act)),
    "moments": lambda a, c: a["M"] * (c.loop + c.vector(a["K"], c.square) + c.vector(a["K"], c.f32)),
    "layer_scale": _layer_scale,
    "rope": _rope,
    "rotate": _rotate,
    "split_heads": _split_heads,
    "scale_queries": _scale_queries,
    "kv_append": _kv_append,
    "attention_scores": _attention_scores,
    "attention_max": _attention_max,
    "attention_exp": _attention_exp,
    "attention_max_by_column": _attention_max,
    "attention_exp_by_column": _attention_exp,
    "attention_values": _attention_values,
    "attention_online": _attention_online,
    "sink_sums": lambda a, c: a["M"] * (c.loop + a["H"] * c.function + 2 * c.vector(a["H"], c.f32)),
    "attention_finish": lambda a, c: a["M"] * a["H"] * (c.loop + c.function + c.vector(a["F"], c.convert)),
    "residual_add": lambda a, c: c.vector(a["n"], c.convert) + c.vector(a["n"], c.act),
    "add": lambda a, c: c.vector(a["n"], c.act),
    "add_bias": lambda a, c: c.loop + c.rows(a["M"], a["n"], c.acc),
    "scale": lambda a, c: c.vector(a["n"], c.acc),
    "store": lambda a, c: c.vector(a["n"], c.convert),
    "store_part": lambda a, c: a["M"] * (c.loop + c.vector(a["n"], c.convert)),
    "copy": lambda a, c: c.vector(a["n"], c.act),
    "copy_weights": lambda a, c: c.vector(a["n"], c.act),
    "soft_cap": lambda a, c: 2 * c.vector(a["n"], c.acc) + a["n"] * c.function,
    "place_heads": _place_heads,
    "place_rotated": _place_rotated,
    "pick_heads": lambda a, c: a["Hl"] * a["M"] * (c.loop + c.vector(a["n"], c.act)),
    "turn_block": lambda a, c: c.vector(a["M"] * a["N"], c.acc) + a["M"] * (c.loop + c.vector(a["N"], c.convert)),
    "activate": _activate,
    "embedding_lookup": lambda a, c: a["M"] * (c.loop + c.vector(a["K"], c.acc)),
    "add_positions": lambda a, c: a["M"] * (c.loop + c.vector(a["K"], c.acc)),
    "argmax_fold": lambda a, c: c.vector(a["n"], c.largest) + c.vector(a["n"], c.f32) + c.loop,
    "pair_indices": lambda a, c: c.vector(a["n"], c.f32),
    "router_place": lambda a, c: c.vector(a["M"] * a["E"], c.acc) + a["M"] * (c.loop + c.vector(a["n"], c.acc)),
    "router_scores": _router_scores,
    "router_correct": lambda a, c: a["M"] * (c.loop + c.vector(a["E"], c.f32)),
    "router_limit": _router_limit,
    "router_choose": _router_choose,
    "expert_pairs": lambda a, c: 2 * _listed(a["M"] * a["A"], c),  # compared, and written where it is held
    "expert_in": lambda a, c: _expert_in(a, c, c.rows(a["K"], a["N"], c.mac)),
    "expert_out": lambda a, c: _expert_out(a, c, c.rows(a["K"], a["N"], c.mac)),
    "expert_in_quantised": lambda a, c: _expert_in(a, c, with_one_expert(a, c)),
    "expert_out_quantised": lambda a, c: _expert_out(a, c, with_one_expert(a, c)),
    "expert_bias": _expert_bias,
}
