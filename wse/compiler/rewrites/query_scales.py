"""Rewrite: apply the norms of query heads to the attention scores instead of the queries.

Some models normalise query heads. The columns add up squares, and every PE computes a root and an
inverse per head. Only then can it scale and rotate the queries and multiply them by keys. Rotation
and scores are linear in the queries, and the scale of a head is a single number. The scale can
therefore be applied to the scores instead, which are few in decode.

1. Queries are multiplied by their gain when their squares are added up, and rotated while the sums
   travel.
2. Scores are computed from unscaled queries. The roots and inverses are computed while the scores
   are added up over the columns of a head group.
3. The scores are scaled.

Keys are scaled as before, because they stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    in_place,
    is_line,
    kernel_of,
    number,
    runs,
    touches,
)
from wse.compiler.symbolic import SymStep
from wse.models.spec import ModelSpec

SCALES: Final = ("rms_scale", "l2_scale")


class _Queries(NamedTuple):
    """Steps that normalise query heads and compute attention scores, by their indices in a block.

    Attributes:
        squares: Step that computes sums of squares of the features on each PE.
        sums: All-reduce of the sums of squares.
        scale: Step that scales the queries.
        scores: Step that computes partial scores.
        score_sums: All-reduce of the scores.
    """

    squares: int
    sums: int
    scale: int
    scores: int
    score_sums: int


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that a query norm scales attention scores instead of queries.

    There are fewer scores than query features, so this saves cycles. Queries whose steps do not
    have the expected form are not changed. ``setting`` is not used.
    """
    for scale in [step for step in block_steps.steps if _scales(step)]:
        found = _queries(block_steps.steps, block_steps.steps.index(scale))
        if found is not None:
            _scale_scores(block_steps, found)


def _queries(steps: Sequence[SymStep], scale: int) -> _Queries | None:
    """Find the steps that normalise queries and use them, given one of these steps.

    The given step scales the queries. The other steps are the sums of squares before it, and the
    attention scores after it.

    Args:
        steps: Steps of a block.
        scale: Index of the scaling step.

    Returns:
        The indices of the steps; None if they do not have a form that can be rewritten.
    """
    q, sums = address(steps[scale], "x"), address(steps[scale], "sums")
    earlier_steps, later_steps = range(scale - 1, -1, -1), range(scale + 1, len(steps))
    squares = next((i for i in earlier_steps if runs(steps[i], "sum_squares") and address(steps[i], "x") == q), None)
    sums_line = next((i for i in earlier_steps if is_line(steps[i]) and touches(steps[i], sums.buffer)), None)
    scores = next((i for i in later_steps if runs(steps[i], "attention_scores") and address(steps[i], "q") == q), None)
    if squares is None or sums_line is None or scores is None or not squares < sums_line or scores + 1 == len(steps):
        return None
    line, product = steps[scores + 1], steps[scores]
    heads = count(product, "M") * count(product, "Hk") * count(product, "queries_per_kv")
    has_known_form = (
        address(steps[squares], "sums") == sums
        and heads == count(steps[scale], "M")
        and (not runs(steps[scale], "rms_scale") or address(steps[scale], "out") == q)
        and is_line(line)
        and in_place(line)
        and address(line, "source") == address(product, "out")
        and line.overlap < 0
        and all(steps[i].loop < 0 for i in (squares, scale, scores, scores + 1))
        and all(runs(steps[i], "rotate") for i in range(scale + 1, scores) if touches(steps[i], q.buffer))
        and not any(touches(steps[i], sums.buffer) for i in range(scale + 1, scores) if not _scales(steps[i]))
    )
    return _Queries(squares, sums_line, scale, scores, scores + 1) if has_known_form else None


def _scales(step: SymStep) -> bool:
    """Return whether a step divides vectors by their root mean square."""
    return any(runs(step, name) for name in SCALES)


def _scale_scores(block_steps: BlockSteps, at: _Queries) -> None:
    """Replace the step that scales queries with a step that scales their attention scores.

    Args:
        block_steps: The steps of the block, modified in place.
        at: Indices of the scaling, of the sums of squares before it, and of the scores after it.
    """
    steps = block_steps.steps
    scale, product, line = steps[at.scale], steps[at.scores], steps[at.score_sums]
    q, heads = address(scale, "x"), count(scale, "M")
    # 3. Scale the scores.
    sizes: dict[str, Operand] = {"M": heads, "N": number(product, "T")}
    scores: dict[str, Operand] = {"x": address(product, "out"), "factors": address(scale, "sums")}
    factors: dict[str, Operand] = {"sums": address(scale, "sums"), "M": heads, "size": count(scale, "size")}
    scale_step = _copy_heads(scale, compute_step(product, "scale_heads", **scores, **sizes))
    # 2. Compute the factors while the scores are all-reduced.
    group = block_steps.add_group()
    factor_step = _copy_heads(
        scale, compute_step(product, "rms_factors", **factors, eps_atto=number(scale, "eps_atto"))
    )
    steps[at.score_sums : at.score_sums + 1] = [
        line.copy_with(**group),
        factor_step.copy_with(**group),
        scale_step,
    ]
    # 1. Apply the gain together with the squares, and rotate while the squares are all-reduced.
    rotations = [i for i in range(at.scale + 1, at.scores) if touches(steps[i], q.buffer) and steps[i].loop < 0]
    group_of_sums = block_steps.group_of_pattern(at.sums) if rotations else None
    rotation_steps = [] if group_of_sums is None else [steps[i].copy_with(**group_of_sums) for i in rotations]
    moved_steps = {at.scale, *(rotations if rotation_steps else ())}
    end = block_steps.end_of_group(at.sums)
    steps[:] = [
        *steps[: at.squares],
        _with_gain(steps[at.squares], scale),
        *steps[at.squares + 1 : end],
        *rotation_steps,
        *(step for i, step in enumerate(steps) if i >= end and i not in moved_steps),
    ]


def _with_gain(squares: SymStep, scale: SymStep) -> SymStep:
    """Return a step that computes sums of squares and also multiplies the queries by a gain.

    A norm of queries multiplies them by a trained vector, its gain. The new step replaces
    ``squares``, which is returned unchanged if the norm has no gain.

    Args:
        squares: Step that computes the sums of squares.
        scale: Step that scales the queries.
    """
    if not runs(scale, "rms_scale"):
        return squares
    names = {name: address(scale, name) for name in ("x", "gain", "out", "sums")}
    sizes = {name: number(scale, name) for name in ("M", "K", "offset")}
    return _copy_heads(scale, compute_step(squares, "gain_sum_squares", **names, **sizes))


def _copy_heads(scale: SymStep, step: SymStep) -> SymStep:
    """Copy a step, so that its vector instructions run over heads if those of another step do.

    A vector instruction over heads processes one element of every head. The other step is the one
    that scales queries. If it does not use such instructions, or the kernel of the copied step
    cannot, the copy processes one head after another.

    Args:
        scale: Step that scales the queries.
        step: Step to copy.
    """
    kernel = kernel_of(step)
    over_heads = scale.over_heads and kernel is not None and kernel.cycles_over_heads is not None
    return step.copy_with(over_heads=over_heads)


def _invalid(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite is invalid for a model and request; "" if it is valid.

    The model must normalise heads, activations must not be float16, and sums must be float32.
    """
    if not spec.head_norm:
        return f"{spec.name} does not normalise heads"
    if options.activation_type == "float16":
        return "float16 activations may overflow before they are scaled"
    return needs_float32_sums(spec, options)


REWRITE: Final = Rewrite(
    name="query-scales",
    summary="Scores instead of queries are scaled by norms, which are computed while scores are all-reduced.",
    source="this project: a scale with one number per head is applied where there are the fewest elements",
    position=190,
    apply=_apply,
    invalid=_invalid,
)
