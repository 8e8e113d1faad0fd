"""Expert routers: every PE selects the experts of each token.

1. The outputs of the router are partitioned across columns. With the rewrite `router_copies`,
   several column segments compute all outputs, and the segment in the middle provides them. An
   all-reduce along rows distributes the outputs to every PE, so that all PEs make the same choice.
2. Each PE turns the outputs into scores, selects experts, and computes their weights.

Sources of the selection rules: the routers of the models that `wse.models.expert_traits.Experts`
describes, as implemented in Hugging Face transformers 5.x.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.linear import project
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.split_block import choice_of_parts, sends_choice, stream_before_block, stream_of_parts
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.symbolic import SymBuffer
from wse.models.expert_traits import Experts
from wse.models.op import Op
from wse.program.isa.operands import PICO
from wse.program.isa.router import blocks_of_outputs
from wse.program.steps import ROWS
from wse_mappings.cuts.layer_parts import BLOCK
from wse_mappings.cuts.split import first_in_the_middle
from wse_mappings.rounding import ceil_div

SIGMOID = "sigmoid"


def router(c: Context, op: Op) -> None:
    """Lower an expert router to steps, which select experts from normalised hidden vectors.

    The results are the ids and weights of the selected experts, ``[tokens, active]``, on every PE.
    If the feed-forward block is split between stages (parts of the model on different PEs), the
    first stage may send its selection to the other stages, which then only load it.
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
    d, choice_elements = c.tokens * c.cut.hidden_per_pe, c.tokens * experts_of(c).active
    c.builder.compute("copy", out=stream_before_block(c), x=c.normed_hidden, n=d)
    if c.stream != stream_of_parts(c):
        c.builder.compute("copy", out=stream_of_parts(c), x=c.stream, n=d)
    c.stream = stream_of_parts(c)
    for out, x in zip(choice_of_parts(c), choice_buffers(c, experts_of(c)), strict=True):
        c.builder.compute("store_statistics", out=out, x=x, n=choice_elements)


def _load_choice(c: Context) -> None:
    """Load the selected experts that another stage has sent.

    If a feed-forward block is split between stages, its first stage selects the experts and sends
    the selection to the other stages.
    """
    choice_elements = c.tokens * experts_of(c).active
    for out, x in zip(choice_buffers(c, experts_of(c)), choice_of_parts(c), strict=True):
        c.builder.compute("load_statistics", out=out, x=x, n=choice_elements)


def _choose_experts(c: Context, op: Op) -> None:
    """Select experts for each token, from normalised hidden vectors, on every PE.

    1. Compute the router outputs on each column of PEs, and distribute them to all PEs by an
       all-reduce along rows.
    2. Compute scores by a sigmoid or a softmax. Some models add a correction that affects only the
       selection.
    3. If experts are grouped, limit the selection to the best groups.
    4. Select the experts with the highest scores, and compute their weights. If the model has a
       sparse mixer, the kernel ``router_mix`` has already computed the weights. Some models
       multiply the weights by a number per expert.
    """
    spec = experts_of(c)
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
        correction = c.tile(f"layers.{op.layer}.router_correction")
        b.compute("router_correct", x=scores, correction=correction, out=choice, M=M, E=E)
    if spec.groups > 1:  # 3
        choice = _limited_to_groups(c, choice)
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
    ids, weights = choice_buffers(c, spec)
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
    if spec.expert_scale:
        scales = c.tile(f"layers.{op.layer}.expert_scale")
        b.compute("scale_choice", ids=ids, weights=weights, scales=scales, M=M, E=E, A=spec.active)


def _limited_to_groups(c: Context, choice: SymBuffer) -> SymBuffer:
    """Exclude the experts of all groups but the best ones, and return the buffer of scores.

    Args:
        c: Context of the phase.
        choice: Scores by which experts are selected, float32 ``[tokens, experts]``.
    """
    spec, M = experts_of(c), c.tokens
    limited = c.temp("router_limited", M * spec.count, "f32")
    c.builder.compute(
        "router_limit",
        x=choice,
        out=limited,
        M=M,
        E=spec.count,
        groups=spec.groups,
        chosen_groups=spec.chosen_groups,
        group_scores=c.temp("router_groups", spec.groups, "f32"),
    )
    return limited


def choice_buffers(c: Context, spec: Experts) -> tuple[SymBuffer, SymBuffer]:
    """Return the buffers of ids and routing weights of the selected experts.

    Both have the shape ``[tokens, active]``, where ``active`` is the number of experts per token.
    """
    ids, weights = (c.temp(f"chosen_{name}", c.tokens * spec.active, "f32") for name in ("ids", "weights"))
    return ids, weights


def experts_of(c: Context) -> Experts:
    """Return the description of the experts of a mixture-of-experts model."""
    assert c.spec.experts is not None
    return c.spec.experts


OPS: Final = {"router": router}
"""Lowering function of each kind of op."""
