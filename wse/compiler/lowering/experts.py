"""Mixture of experts: expert selection on every PE, then products with the selected experts only.

1. The outputs of the router are divided over columns. With the rewrite `router_copies`, several
   column segments compute all outputs, and the segment in the middle provides them. An all-reduce
   along rows distributes the outputs to every PE, so that all PEs make the same choice.
2. Hidden vectors are already on every column. Each PE lists its pairs: a token and a selected
   expert that is stored on the PE's column.
3. The PE multiplies by the tiles of the experts in its pairs.
4. Each token's results from all columns are added up along rows.

Sources of the selection rules: the routers of the models that `wse.models.spec.Experts` describes,
as implemented in Hugging Face transformers 5.x.
"""

from __future__ import annotations

from typing import Any, Final

from wse.compiler.lowering.dispatch import at_experts, combine, dispatch
from wse.compiler.lowering.feed_forward import activate
from wse.compiler.lowering.linear import add_to_stream, project
from wse.compiler.lowering.local_product import expert_product
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.split_block import choice_of_parts, sends_choice, stream_before_block, stream_of_parts
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.models.graph import Op
from wse.models.spec import Experts
from wse.program.isa.operands import PICO
from wse.program.isa.router import blocks_of_outputs
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.expert_groups import ExpertGroups
from wse_mappings.cuts.layer_parts import BLOCK
from wse_mappings.cuts.split import first_in_the_middle
from wse_mappings.rounding import ceil_div

SIGMOID = "sigmoid"


def router(c: Context, op: Op) -> None:
    """Lower an expert router to steps, which select experts from normalised hidden vectors.

    The results are the ids and weights of the selected experts, ``[tokens, active]``, on every PE.
    The feed-forward block may be split into parts on several stages. If the first of these stages
    sends its selection, the other stages load it instead of selecting again.
    """
    if not (op.parts.cuts_block and sends_choice(c, op.layer)):
        _choose_experts(c, op)
    elif op.parts.first > BLOCK.first:
        _load_choice(c)
    else:
        _choose_experts(c, op)
        _store_choice(c)


def _store_choice(c: Context) -> None:
    """Store normalised vectors and selected experts in the buffer that is sent to the next stage.

    If a feed-forward block is split between stages, its first stage selects the experts, and the
    next stages load the selection.
    """
    d, choice_elements = c.tokens * c.cut.hidden_per_pe, c.tokens * _experts(c).active
    c.builder.compute("copy", out=stream_before_block(c), x=c.normed_hidden, n=d)
    if c.stream != stream_of_parts(c):
        c.builder.compute("copy", out=stream_of_parts(c), x=c.stream, n=d)
    c.stream = stream_of_parts(c)
    for out, x in zip(choice_of_parts(c), _choice_buffers(c, _experts(c)), strict=True):
        c.builder.compute("store_statistics", out=out, x=x, n=choice_elements)


def _load_choice(c: Context) -> None:
    """Load the selected experts that another stage has sent.

    If a feed-forward block is split between stages, its first stage selects the experts and sends
    the selection to the other stages.
    """
    choice_elements = c.tokens * _experts(c).active
    for out, x in zip(_choice_buffers(c, _experts(c)), choice_of_parts(c), strict=True):
        c.builder.compute("load_statistics", out=out, x=x, n=choice_elements)


def _choose_experts(c: Context, op: Op) -> None:
    """Select experts for each token, from normalised hidden vectors, on every PE.

    1. Compute the router outputs on each column of PEs, and distribute them to all PEs by an
       all-reduce along rows.
    2. Compute scores by a sigmoid or a softmax. Some models add a correction that affects only the
       selection.
    3. If experts are grouped, limit the selection to the best groups.
    4. Select the experts with the highest scores, and compute their weights. A sparse mixer has
       computed these before.
    """
    spec = _experts(c)
    M, E, b = c.tokens, spec.count, c.builder
    columns = c.router_columns
    n = ceil_div(E, columns)
    # 1. Outputs.
    partial, logits = c.temp("router_partial", M * n, "acc"), c.temp("router_logits", M * E, "acc")
    project(c, c.normed_hidden, op.weights, (n,), partial, c.cut.hidden_per_pe, bias=spec.router_bias)
    first = c.cut.cols // columns // 2 * columns + first_in_the_middle(E, columns)  # in the segment in the middle
    b.compute("router_place", x=partial, out=logits, M=M, n=n, E=E, first=first, columns=c.cut.cols, zeros=1)
    all_reduce(c, ROWS, logits, M * E)
    # 2. Scores.
    scores = choice = c.temp("router_scores", M * E, "f32")
    b.compute("router_scores", x=logits, out=scores, M=M, E=E, sigmoid=int(spec.scoring == SIGMOID))
    if spec.correction:
        choice = c.temp("router_choice", M * E, "f32")
        b.compute("router_correct", x=scores, correction=c.tile(op.vectors[-1][0]), out=choice, M=M, E=E)
    if spec.groups > 1:  # 3
        limited, group_scores = c.temp("router_limited", M * E, "f32"), c.temp("router_groups", spec.groups, "f32")
        b.compute(
            "router_limit",
            x=choice,
            out=limited,
            M=M,
            E=E,
            groups=spec.groups,
            chosen_groups=spec.chosen_groups,
            group_scores=group_scores,
        )
        choice = limited
    if spec.mixer_tolerance is not None:
        scores = c.temp("router_mixed", M * E, "f32")
        b.compute(
            "router_mix",
            x=logits,
            out=scores,
            M=M,
            E=E,
            A=spec.active,
            tolerance_pico=round(PICO * spec.mixer_tolerance),
        )
    # 4. Choice.
    ids, weights = _choice_buffers(c, spec)
    b.compute(
        "router_choose",
        choice=choice,
        scores=scores,
        ids=ids,
        weights=weights,
        maxima=c.temp("router_maxima", blocks_of_outputs(E), "f32"),
        M=M,
        E=E,
        A=spec.active,
        normalised=int(spec.normalised),
        scale_pico=round(PICO * spec.scale),
    )


def experts(c: Context, op: Op) -> None:
    """Lower the gate and up projections of the selected experts, and the activation, to steps.

    The input consists of normalised hidden vectors. The results are the activated features of each
    (token, selected expert) pair.
    """
    dispatch(c, c.normed_hidden, _choice_buffers(c, _experts(c)))
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
    M, d, F, per_col, b = c.tokens, c.cut.hidden_per_pe, cut.features_per_expert, cut.experts_per_col, c.builder
    ids, weights = _choice_buffers(c, spec)
    P = _max_pairs(c)
    pairs = _pairs(c)
    segment_count = cut.segment_count
    b.compute(  # 1
        "expert_pairs",
        ids=ids,
        weights=weights,
        pairs=pairs,
        M=M,
        A=spec.active,
        P=_times_pairs(c),
        experts=spec.count,
        groups=len(cut.segments) // segment_count,
        columns=c.cut.cols,
        segments=segment_count,
    )
    # 2. Products.
    gate_up = c.temp("expert_gate_up", P * 2 * F, "acc")
    tile, normed = c.tile("+".join(op.weights)), c.normed_hidden
    pair_operands: dict[str, Any] = {"pairs": pairs, "P": _times_pairs(c), "M": M, "local_experts": per_col}
    strides = {"k_stride": 2 * per_col * F, "out_stride": 2 * F}
    pair_operands |= strides | {"weighted": int(spec.weighs_input), "columns": c.cut.cols}
    expert_product(c, "expert_in", SymAddress(buffer=tile), d, 2 * F, x=normed, out=gate_up, **pair_operands)
    for group in op.vectors:
        sizes = {"N": F, "parts": 2, "stride": 2 * F, "share": ceil_div(per_col * F, c.cut.rows)}
        _add_bias(c, gate_up, "+".join(group), by_token=0, weighted=0, **sizes)
    all_reduce(c, COLUMNS, gate_up, _times_pairs(c, 2 * F), count=pairs if _is_routed(c) else None)
    activate(c, gate_up, c.temp("expert_hidden", P * F, "act"), _times_pairs(c), F)  # 3


def experts_down(c: Context, op: Op) -> None:
    """Lower the down-projection of the selected experts to steps.

    The outputs are multiplied by the weights of the experts, added up over columns, and added to
    the residual stream.
    """
    n = c.tokens * c.cut.hidden_per_pe
    with at_experts(c):
        out = _down_product(c, op)
    combine(c, out, n)
    add_to_stream(c, c.temp("projected_back", n, "acc"), op.weights[0], bias=False)


def _down_product(c: Context, op: Op) -> SymBuffer:
    """Lower the down-projection of the selected experts to steps, without the sum over columns.

    Returns:
        The buffer with each column's contribution to the output of the experts: its products, added
        up per token.
    """
    spec, cut = _mixture(c)
    M, d, F, per_col = c.tokens, c.cut.hidden_per_pe, cut.features_per_expert, cut.experts_per_col
    P = _max_pairs(c)
    out = c.temp("projected_back", M * d, "acc")
    pair_operands: dict[str, Any] = {"pairs": _pairs(c), "P": _times_pairs(c), "M": M, "local_experts": per_col}
    pair_operands["weighted"] = int(not spec.weighs_input)
    hidden = c.temp("expert_hidden", P * F, "act")
    expert_product(
        c,
        "expert_out",
        SymAddress(buffer=c.tile(op.weights[0])),
        F,
        d,
        x=hidden,
        out=out,
        columns=c.cut.cols,
        **pair_operands,
    )
    for (vector,) in op.vectors:
        sizes = {"N": d, "parts": 1, "stride": d, "share": cut.shared_experts().shape[1] * d}
        _add_bias(c, out, vector, by_token=1, weighted=int(not spec.weighs_input), **sizes)
    return out


def _add_bias(c: Context, x: SymBuffer, vector: str, **numbers: int) -> None:
    """Add expert biases to the products of the (token, expert) pairs.

    Args:
        c: Context of the phase being lowered.
        x: Buffer of the products, to which the biases are added.
        vector: Name of the weight tile that contains the biases.
        numbers: Additional kernel operands.
    """
    cut = _mixture(c)[1]
    c.builder.compute(
        "expert_bias",
        x=x,
        bias=c.tile(vector),
        pairs=_pairs(c),
        P=_times_pairs(c),
        M=c.tokens,
        local_experts=cut.experts_per_col,
        columns=c.cut.cols,
        groups=len(cut.segments) // cut.segment_count,
        segments=cut.segment_count,
        **numbers,
    )


def _experts(c: Context) -> Experts:
    """Return the description of the experts of a mixture-of-experts model."""
    assert c.spec.experts is not None
    return c.spec.experts


def _mixture(c: Context) -> tuple[Experts, ExpertGroups]:
    """Return the model's mixture of experts, and which columns of PEs store which experts."""
    assert c.cut.experts is not None
    return _experts(c), c.cut.experts


def _choice_buffers(c: Context, spec: Experts) -> tuple[SymBuffer, SymBuffer]:
    """Return the buffers of ids and routing weights of the selected experts.

    Both have the shape ``[tokens, active]``, where ``active`` is the number of experts per token.
    """
    ids, weights = (c.temp(f"chosen_{name}", c.tokens * spec.active, "f32") for name in ("ids", "weights"))
    return ids, weights


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

    The number is constant if all columns of PEs store the same experts. Otherwise it depends on the
    selected experts and is computed at run time.
    """
    return SymNumber(fixed=_max_pairs(c) * count, per_pair=count if _is_routed(c) else 0)


def _pairs(c: Context) -> SymBuffer:
    """Return the buffer that lists the (token, expert) pairs processed by a column of PEs.

    Its first element is the number of pairs. Three values per pair follow: token, expert and
    routing weight.
    """
    return c.temp("expert_pairs", 1 + 3 * _max_pairs(c), "f32")


OPS: Final = {"router": router, "experts": experts, "experts_down": experts_down}
"""Lowering function of each kind of op."""
