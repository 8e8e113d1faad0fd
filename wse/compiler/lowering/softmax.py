"""Softmax of attention scores, and the weighted values, for all kinds of attention."""

from __future__ import annotations

from typing import Any

from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import over_users
from wse.compiler.lowering.sums import all_reduce, reduce_in_groups
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.models.op import Op
from wse.program.isa.operands import PICO
from wse.program.steps import COLUMNS
from wse_mappings.schedule import Arrival


def attend(c: Context, op: Op, scores: SymBuffer, values: SymAddress, F: int, capacity: int) -> None:
    """Lower the softmax of attention scores and the weighted sum of values to steps.

    1. Add up the partial scores over the columns that store features of the same head.
    2. Compute the maximum score of each head over all rows.
    3. Compute exponentials and their sums over all rows.
    4. Multiply the values by the exponentials, and add up the products over all rows.
    5. Divide by the sums.

    The result is partitioned across PEs in the same way as the queries.

    Args:
        c: Context of the phase being lowered.
        op: Attention op.
        scores: Buffer of the partial scores.
        values: Address of the value cache.
        F: Number of features per head on a column of PEs.
        capacity: Maximum number of cache entries per row.
    """
    H, Hk, queries_per_kv, _ = c.heads
    M, b = c.tokens, c.builder
    T = SymNumber(per_slot=1)
    maxima, sums = c.temp("maxima", M * H, "f32"), c.temp("sums", M * H, "f32")
    weights, attended_sums = c.temp("attention_weights", M * H * capacity, "act"), c.temp("mixed", M * H * F, "acc")
    reduce_in_groups(c, scores, SymNumber(per_slot=M * H))  # 1
    row = SymNumber(per_slot=H)  # scores of one token; all users get the room of the one with the longest cache
    softmax = softmax_operands(c, op, scores, SymNumber(per_slot=M * H)) | {"H": H, "T": T, "capacity": capacity}
    with over_users(c) as user:
        operands: dict[str, Any] = {"scores": user.at(scores, row), "M": user.tokens}
        b.compute("attention_max", out=user.at(maxima, H), **operands, **softmax)  # 2
    all_reduce(c, COLUMNS, maxima, M * H, Arrival.MAX)
    with over_users(c) as user:
        operands = {"scores": user.at(scores, row), "maxima": user.at(maxima, H), "M": user.tokens}
        b.compute("attention_exp", out=user.at(weights, row), sums=user.at(sums, H), **operands, **softmax)  # 3
    all_reduce(c, COLUMNS, sums, M * H)
    sizes: dict[str, Any] = {"Hk": Hk, "queries_per_kv": queries_per_kv, "F": F, "T": T, "capacity": capacity}
    with over_users(c) as user:
        operands = {"p": user.at(weights, row), "v": values, "out": user.at(attended_sums, H * F), "M": user.tokens}
        b.compute("attention_values", **operands, **sizes)  # 4
    all_reduce(c, COLUMNS, attended_sums, M * H * F)
    divide_by_sums(c, op, attended_sums, sums, maxima, F)  # 5


def softmax_operands(c: Context, op: Op, scores: SymBuffer, elements: SymNumber) -> dict[str, Any]:
    """Return the operands that all softmax kernels need: score scale, window and chunk size.

    A window limits attention to the most recent tokens, and a chunk limits it to tokens in the same
    chunk; 0 means no limit. If the model caps its scores, a step that scales and caps the scores is
    added first, and the returned scale is 1.

    Args:
        c: Context of the phase being lowered.
        op: Attention op, whose layer determines the window and the chunk.
        scores: Attention scores.
        elements: Number of scores per PE.

    Returns:
        Keyword arguments for `PhaseBuilder.compute`: operands by name.
    """
    layer, scale, cap = c.spec.layers[op.layer], round(PICO * c.spec.attention_scale), c.spec.score_cap
    if cap is not None:
        c.builder.compute("soft_cap", x=scores, n=elements, scale_pico=scale, cap_pico=round(PICO * cap))
        scale = PICO
    return {"scale_pico": scale, "window": layer.window or 0, "chunk": layer.chunk or 0}


def divide_by_sums(c: Context, op: Op, attended_sums: SymBuffer, sums: SymBuffer, maxima: SymBuffer, F: int) -> None:
    """Add the steps that divide weighted sums of values by the softmax sums.

    Every PE has the complete softmax sums. If the model has attention sinks, they are added to
    these sums first. The result is stored in the buffer ``attended``.

    Args:
        c: Context of the phase being lowered.
        op: Attention op.
        attended_sums: Sums of the values, each multiplied by its exponential.
        sums: Sums of the exponentials, one per token and query head.
        maxima: Maximum scores that were subtracted before the exponentials were computed.
        F: Number of features per head on a column of PEs.
    """
    H, M, b = c.heads[0], c.tokens, c.builder
    if c.spec.sinks:
        b.compute("sink_sums", sums=sums, maxima=maxima, sinks=c.tile(f"layers.{op.layer}.sinks"), M=M, H=H)
    b.compute("attention_finish", x=attended_sums, sums=sums, out=c.temp("attended", M * H * F, "act"), M=M, H=H, F=F)
