"""Softmax shifted by each row's own maximum, so that the all-reduce of maxima runs beside exponentials and values.

A softmax does not care by what it is shifted as long as nothing overflows. Each row of PEs shifts by the largest score
of its own cache entries, rounded to a whole multiple of ln 2, and rescales its sums and values by exp(own - common)
before they are summed: by a power of two, for which no exponential is taken and which rounds nothing itself.

1. The maxima are rounded and copied; the copies are reduced while weights, and with them values, are made with the
   row's own: all that comes before the place to rescale, words along the other axis with it, is a chain beside that
   all-reduce.
2. Before the sums and values of all rows are added, each row's are multiplied with exp(own - common).

Sums and values must travel in one message (`merged_sums`), so that there is one place to rescale.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    goes_by_rounds,
    in_place,
    is_line,
    kernel_of,
    runs,
    touches,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymStep


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    for exp in [step for step in steps if _makes_weights(step) and step.loop < 0]:
        index = steps.index(exp)
        reduce_, largest = steps[index - 1], steps[index - 2]
        maxima = address(exp, "maxima")
        follows = is_line(reduce_) and in_place(reduce_) and runs(largest, "attention_max")
        if not follows or address(reduce_, "source") != maxima or address(largest, "out") != maxima or maxima.offset:
            continue
        summed = _sum_of_weights(steps, index)
        if summed is not None:
            _rewrite(c, draft, index, summed)


def _makes_weights(step: SymStep) -> bool:
    """Return whether a step computes exponentials, all or a part of them, in the same way in all iterations."""
    return (runs(step, "attention_exp") or runs(step, "attention_exp_share")) and not goes_by_rounds(step)


def _may_join(step: SymStep, reduce_: SymStep) -> bool:
    """Return whether a step can overlap with the all-reduce ``reduce_``, because it does not use its result.

    In the loop of the group what depends on rounds of a loop would depend on other ones.
    """
    alone = step.loop < 0 and step.overlap < 0 and not step.routed and not goes_by_rounds(step)
    moves = is_line(step) and step.axis != reduce_.axis
    return alone and (kernel_of(step) is not None or moves) and not touches(step, address(reduce_, "source").buffer)


def _sum_of_weights(steps: list[SymStep], exp: int) -> int | None:
    """Return the all-reduce of the sums of the weights that a step computes, followed by the values."""
    summing = (steps[i] for i in range(exp, len(steps)) if runs(steps[i], "softmax_sums"))
    sums = address(steps[exp] if runs(steps[exp], "attention_exp") else next(summing), "sums")
    for index in range(exp + 1, len(steps)):
        if is_line(steps[index]) and touches(steps[index], sums.buffer):
            has_values = count(steps[index], "elements") > count(steps[exp], "M") * count(steps[exp], "H")
            return index if has_values and address(steps[index], "source") == sums and not sums.offset else None
    return None


def _rewrite(c: Context, draft: Draft, exp: int, summed: int) -> None:
    steps = draft.steps
    weights, reduce_, largest = steps[exp], steps[exp - 1], steps[exp - 2]
    M, H, common = count(weights, "M"), count(weights, "H"), address(weights, "maxima")
    sums = address(steps[summed], "source")
    heads = M * H
    own = SymAddress(buffer=c.temp("maxima_of_row", heads, "f32"))
    features = (count(steps[summed], "elements") - heads) // heads
    # 2. Rescaled before they are summed.
    values = replace(sums, offset=heads)
    operands: dict[str, Operand] = {
        "own": own,
        "maxima": common,
        "sums": sums,
        "x": values,
        "M": M,
        "H": H,
        "F": features,
    }
    steps.insert(summed, compute_step(weights, "softmax_rescale", **operands))
    # 1. The maxima reduced beside the exponentials and values.
    loop, overlap = draft.add_loop(1), draft.add_group()
    end = next((i for i in range(exp + 1, summed) if not _may_join(steps[i], reduce_)), summed)
    steps[exp - 2 : end] = [
        with_operands(largest, out=own),
        compute_step(weights, "round_maxima", x=own, n=heads),
        compute_step(weights, "copy_statistics", out=common, x=own, n=heads),
        reduce_.copy_with(loop=loop, overlap=overlap),
        with_operands(weights, maxima=own).copy_with(loop=loop, overlap=overlap),
        *(step.copy_with(loop=loop, overlap=overlap, in_chain=is_line(step)) for step in steps[exp + 1 : end]),
    ]


REWRITE: Final = Rewrite(
    name="local-maxima",
    summary="Rows shift softmax by their own maximum and rescale once; the common one is found meanwhile.",
    source="online softmax (Milakov and Gimelshein, arXiv 1805.02867)",
    position=50,
    apply=_apply,
    invalid=needs_float32_sums,
)
