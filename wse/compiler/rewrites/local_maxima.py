"""Rewrite: shift softmax by the maximum of each row, and find the common maximum in parallel.

To avoid overflow, softmax subtracts the maximum from the scores. The result does not depend on the
subtracted number as long as nothing overflows. Cache entries are partitioned across rows. Each row
of PEs subtracts the largest score of its own entries, rounded to a multiple of ln 2. Before the
sums and values of the rows are added up, they are multiplied by exp(own maximum - common maximum).
This factor is a power of two, so no exponential is needed and nothing is rounded.

1. The maxima are rounded and copied. The copies are all-reduced while weights and values are
   computed with the row's own maxima. All steps before the rescaling that do not use the common
   maxima, including transfers along the other axis, form a chain in parallel with the all-reduce.
2. Before the sums and values are all-reduced, they are multiplied by the factor.

Sums and values must travel in one message (`merged_sums`), so that there is a single place to
rescale.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    in_place,
    is_line,
    kernel_of,
    runs,
    touches,
    varies_by_round,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that softmax exponentials are computed during the max-reduction.

    Each row of PEs computes exponentials with the maximum of its own scores, while an all-reduce
    finds the maxima over all rows. The row then rescales its results. Steps for which this is
    impossible are not changed. ``setting`` is not used.
    """
    steps = block_steps.steps
    for exp in [step for step in steps if _makes_weights(step) and step.loop < 0]:
        index = steps.index(exp)
        max_reduce, max_step = steps[index - 1], steps[index - 2]
        maxima = address(exp, "maxima")
        follows = is_line(max_reduce) and in_place(max_reduce) and runs(max_step, "attention_max")
        if (
            not follows
            or address(max_reduce, "source") != maxima
            or address(max_step, "out") != maxima
            or maxima.offset
        ):
            continue
        sums_index = _sum_of_weights(steps, index)
        if sums_index is not None:
            _rewrite(c, block_steps, index, sums_index)


def _makes_weights(step: SymStep) -> bool:
    """Return whether a step computes softmax exponentials in a way that this rewrite supports.

    Steps whose operands differ between the iterations of a loop are not supported.
    """
    return (runs(step, "attention_exp") or runs(step, "attention_exp_share")) and not varies_by_round(step)


def _can_overlap(step: SymStep, max_reduce: SymStep) -> bool:
    """Return whether a step can run in parallel with the all-reduce of the softmax maxima.

    The step must not use the result of the all-reduce. It must not be in a loop or an overlap group
    (steps that run concurrently), because the rewrite puts it into a new overlap group.
    """
    is_independent = step.loop < 0 and step.overlap < 0 and not step.depends_on_experts and not varies_by_round(step)
    is_crosswise_transfer = is_line(step) and step.axis != max_reduce.axis
    return (
        is_independent
        and (kernel_of(step) is not None or is_crosswise_transfer)
        and not touches(step, address(max_reduce, "source").buffer)
    )


def _sum_of_weights(steps: list[SymStep], exp: int) -> int | None:
    """Return the index of the all-reduce that adds up both softmax sums and weighted values.

    The softmax sums are the sums of the exponentials. The weighted values are the values multiplied
    by the exponentials.

    Args:
        steps: Steps of a block.
        exp: Index of the step that computes the exponentials.

    Returns:
        The index; None if sums and weighted values are sent in two messages.
    """
    summing = (steps[i] for i in range(exp, len(steps)) if runs(steps[i], "softmax_sums"))
    sums = address(steps[exp] if runs(steps[exp], "attention_exp") else next(summing), "sums")
    for index in range(exp + 1, len(steps)):
        if is_line(steps[index]) and touches(steps[index], sums.buffer):
            has_values = count(steps[index], "elements") > count(steps[exp], "M") * count(steps[exp], "H")
            return index if has_values and address(steps[index], "source") == sums and not sums.offset else None
    return None


def _rewrite(c: Context, block_steps: BlockSteps, exp: int, sums_index: int) -> None:
    """Make the all-reduce of the softmax maxima run concurrently with the exponentials.

    The exponentials are computed with the maxima of each row of PEs. The sums and weighted values
    are rescaled to the common maxima before their all-reduce.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        exp: Index of the step that computes exponentials.
        sums_index: Index of the all-reduce of the softmax sums and weighted values.
    """
    steps = block_steps.steps
    weights, max_reduce, max_step = steps[exp], steps[exp - 1], steps[exp - 2]
    M, H, common = count(weights, "M"), count(weights, "H"), address(weights, "maxima")
    sums = address(steps[sums_index], "source")
    heads = M * H
    row_maxima = SymAddress(buffer=c.temp("maxima_of_row", heads, "f32"))
    features = (count(steps[sums_index], "elements") - heads) // heads
    # 2. Rescale before the sums.
    values = replace(sums, offset=heads)
    operands: dict[str, Operand] = {
        "own": row_maxima,
        "maxima": common,
        "sums": sums,
        "x": values,
        "M": M,
        "H": H,
        "F": features,
    }
    steps.insert(sums_index, compute_step(weights, "softmax_rescale", **operands))
    # 1. All-reduce the maxima in parallel with the exponentials and values.
    group = block_steps.add_group()
    end = next((i for i in range(exp + 1, sums_index) if not _can_overlap(steps[i], max_reduce)), sums_index)
    steps[exp - 2 : end] = [
        with_operands(max_step, out=row_maxima),
        compute_step(weights, "round_maxima", x=row_maxima, n=heads),
        compute_step(weights, "copy_statistics", out=common, x=row_maxima, n=heads),
        max_reduce.copy_with(**group),
        with_operands(weights, maxima=row_maxima).copy_with(**group),
        *(step.copy_with(**group, in_chain=is_line(step)) for step in steps[exp + 1 : end]),
    ]


REWRITE: Final = Rewrite(
    name="local-maxima",
    summary="Rows shift softmax by their own maximum and rescale once; the common maximum is computed meanwhile.",
    source="online softmax (Milakov and Gimelshein, arXiv 1805.02867)",
    position=50,
    apply=_apply,
    invalid=needs_float32_sums,
)
