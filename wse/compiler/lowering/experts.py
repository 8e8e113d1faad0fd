"""Mixture of experts: products with the experts that the router has selected, on every PE.

1. Hidden vectors are already on every column. Each PE lists its pairs: a token and a selected
   expert that is stored on the PE's column.
2. The PE multiplies by the tiles of the experts in its pairs.
3. Each token's results from all columns are added up along rows.
"""

from __future__ import annotations

from typing import Any, Final

from wse.compiler.lowering.dispatch import at_experts, combine, dispatch
from wse.compiler.lowering.feed_forward import activate
from wse.compiler.lowering.linear import add_to_stream
from wse.compiler.lowering.local_product import expert_product
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.router import choice_buffers, experts_of
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.models.expert_traits import Experts
from wse.models.op import Op
from wse.program.steps import COLUMNS
from wse_mappings.cuts.expert_groups import ExpertGroups
from wse_mappings.rounding import ceil_div


def experts(c: Context, op: Op) -> None:
    """Add the steps for the first half of the selected experts: gate, up and activation.

    The input consists of normalised hidden vectors. The results are the features of each (token,
    selected expert) pair after the activation function.
    """
    dispatch(c, c.normed_hidden, choice_buffers(c, experts_of(c)))
    with at_experts(c):
        _gate_up_products(c, op)


def _gate_up_products(c: Context, op: Op) -> None:
    """Lower the gate and up projections, and the activation, on the PEs that store the experts.

    1. List the (token, expert) pairs of each column of PEs: the selected experts that it stores.
    2. Multiply each pair's token vector by the gate and up weights of its expert, and add up the
       products over the rows.
    3. Apply the activation function.
    """
    spec, cut = _mixture(c)
    d, F, per_col = c.cut.hidden_per_pe, cut.features_per_expert, cut.experts_per_col
    ids, weights = choice_buffers(c, spec)
    P = _max_pairs(c)
    operands = _pair_operands(c)
    sizes = {"A": spec.active, "experts": spec.count}
    c.builder.compute("expert_pairs", ids=ids, weights=weights, **operands, **sizes, **_segment_operands(c))  # 1
    # 2. Products.
    gate_up = c.temp("expert_gate_up", P * 2 * F, "acc")
    tile, normed = c.tile("+".join(op.weights)), c.normed_hidden
    operands |= {"k_stride": 2 * per_col * F, "out_stride": 2 * F, "local_experts": per_col}
    operands["weighted"] = int(spec.weighs_input)
    expert_product(c, "expert_in", SymAddress(buffer=tile), d, 2 * F, x=normed, out=gate_up, **operands)
    for group in op.vectors:
        sizes = {"N": F, "parts": 2, "stride": 2 * F, "biases_per_pe": ceil_div(per_col * F, c.cut.rows)}
        _add_bias(c, gate_up, "+".join(group), by_token=0, weighted=0, **sizes)
    all_reduce(c, COLUMNS, gate_up, _times_pairs(c, 2 * F), count=_pairs(c) if _is_routed(c) else None)
    activate(c, gate_up, c.temp("expert_hidden", P * F, "act"), _times_pairs(c), F)  # 3


def experts_down(c: Context, op: Op) -> None:
    """Add the steps for the down-projection of the selected experts.

    The outputs are multiplied by the weights of the experts, added up over columns, and added to
    the residual stream.
    """
    n = c.tokens * c.cut.hidden_per_pe
    with at_experts(c):
        out = _down_product(c, op)
    combine(c, out, n)
    add_to_stream(c, op, c.temp("projected_back", n, "acc"), bias=False)


def _down_product(c: Context, op: Op) -> SymBuffer:
    """Add the steps for the down-projection of the selected experts, except the sum over columns.

    Returns:
        Buffer with the contribution of each column of PEs: for each token, the sum over the experts
        that the column stores.
    """
    spec, cut = _mixture(c)
    d, F = c.cut.hidden_per_pe, cut.features_per_expert
    out = c.temp("projected_back", c.tokens * d, "acc")
    operands = _pair_operands(c) | {"local_experts": cut.experts_per_col, "weighted": int(not spec.weighs_input)}
    hidden = c.temp("expert_hidden", _max_pairs(c) * F, "act")
    tile = SymAddress(buffer=c.tile(op.weights[0]))
    expert_product(c, "expert_out", tile, F, d, x=hidden, out=out, **operands)
    for (vector,) in op.vectors:
        sizes = {"N": d, "parts": 1, "stride": d, "biases_per_pe": cut.shared_experts().shape[1] * d}
        _add_bias(c, out, vector, by_token=1, weighted=int(not spec.weighs_input), **sizes)
    return out


def _add_bias(c: Context, x: SymBuffer, vector: str, **numbers: int) -> None:
    """Add a step that adds each expert's bias to the products of its (token, expert) pairs.

    Args:
        c: Context of the phase being lowered.
        x: Buffer of the products, to which the biases are added.
        vector: Name of the weight tile that contains the biases.
        numbers: Additional kernel operands.
    """
    operands: dict[str, Any] = {"x": x, "bias": c.tile(vector), "local_experts": _mixture(c)[1].experts_per_col}
    c.builder.compute("expert_bias", **operands, **_pair_operands(c), **_segment_operands(c), **numbers)


def _pair_operands(c: Context) -> dict[str, Any]:
    """Return the operands by which kernels iterate over the (token, expert) pairs of a column."""
    return {"pairs": _pairs(c), "P": _times_pairs(c), "M": c.tokens, "columns": c.cut.cols}


def _segment_operands(c: Context) -> dict[str, int]:
    """Return the operands that tell kernels which columns store different experts."""
    cut = _mixture(c)[1]
    return {"groups": len(cut.segments) // cut.segment_count, "segments": cut.segment_count}


def _mixture(c: Context) -> tuple[Experts, ExpertGroups]:
    """Return the model's mixture of experts, and which columns of PEs store which experts."""
    assert c.cut.experts is not None
    return experts_of(c), c.cut.experts


def _max_pairs(c: Context) -> int:
    """Return the maximum number of (token, selected expert) pairs on a column of PEs.

    It determines the sizes of the buffers that have one entry per pair.
    """
    assert c.cut.mixture is not None
    return c.cut.mixture.max_pairs(c.tokens)


def _is_routed(c: Context) -> bool:
    """Return whether columns of PEs store different experts.

    If they do, the amount of work of a column depends on which experts the router selects.
    """
    return len(_mixture(c)[1].segments) > 1


def _times_pairs(c: Context, count: int = 1) -> SymNumber:
    """Return a kernel operand: ``count`` times the number of (token, expert) pairs of a column.

    If all columns of PEs store the same experts, the number of pairs is a constant. Otherwise it
    depends on the selected experts, and PEs read it at run time.
    """
    return SymNumber(fixed=_max_pairs(c) * count, per_pair=count if _is_routed(c) else 0)


def _pairs(c: Context) -> SymBuffer:
    """Return the buffer that lists the (token, expert) pairs processed by a column of PEs.

    Its first element is the number of pairs. Three values per pair follow: token, expert and
    routing weight.
    """
    return c.temp("expert_pairs", 1 + 3 * _max_pairs(c), "f32")


OPS: Final = {"experts": experts, "experts_down": experts_down}
"""Lowering function of each kind of op."""
