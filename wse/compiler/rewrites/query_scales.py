"""Norms of queries' heads as factors of their scores, so that nothing waits for them before there are scores.

Where each head's queries are normalised, its columns sum squares, every PE computes a root and an inverse for each
head, and scales, rotates and multiplies with keys in that order. But rotation and scores are linear in the queries, and
the scale of a head is one number: it may as well multiply the few scores.

1. The queries take their gain as their squares are summed, and are rotated while the sums travel.
2. Scores are made of queries without their scale. While these are summed over the columns of a head group, the roots
   and inverses are computed.
3. The scores are scaled.

Keys are scaled as before: they stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
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
    """The steps that square, sum and scale queries and compute and sum their scores, by index."""

    squares: int
    sums: int
    scale: int
    scores: int
    summed: int


def _apply(c: Context, draft: Draft, setting: int) -> None:
    for scale in [step for step in draft.steps if any(runs(step, name) for name in SCALES)]:
        found = _queries(draft.steps, draft.steps.index(scale))
        if found is not None:
            _scale_scores(draft, found)


def _queries(steps: Sequence[SymStep], scale: int) -> _Queries | None:
    """Return the steps around one that scales queries in place, if they have the known form; None otherwise."""
    q, sums = address(steps[scale], "x"), address(steps[scale], "sums")
    before, behind = range(scale - 1, -1, -1), range(scale + 1, len(steps))
    squares = next((i for i in before if runs(steps[i], "sum_squares") and address(steps[i], "x") == q), None)
    summed = next((i for i in before if is_line(steps[i]) and touches(steps[i], sums.buffer)), None)
    scores = next((i for i in behind if runs(steps[i], "attention_scores") and address(steps[i], "q") == q), None)
    if squares is None or summed is None or scores is None or not squares < summed or scores + 1 == len(steps):
        return None
    line, product = steps[scores + 1], steps[scores]
    heads = count(product, "M") * count(product, "Hk") * count(product, "queries_per_kv")
    known = (
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
    return _Queries(squares, summed, scale, scores, scores + 1) if known else None


def _scales(step: SymStep) -> bool:
    return any(runs(step, name) for name in SCALES)


def _scale_scores(draft: Draft, at: _Queries) -> None:
    steps = draft.steps
    scale, product, line = steps[at.scale], steps[at.scores], steps[at.summed]
    q, heads = address(scale, "x"), count(scale, "M")
    # 3. The scores scaled.
    sizes: dict[str, Operand] = {"M": heads, "N": number(product, "T")}
    scores: dict[str, Operand] = {"x": address(product, "out"), "factors": address(scale, "sums")}
    factors: dict[str, Operand] = {"sums": address(scale, "sums"), "M": heads, "size": count(scale, "size")}
    scaled = _copy_heads(scale, compute_step(product, "scale_heads", **scores, **sizes))
    # 2. The factors while they are summed.
    loop, overlap = draft.add_loop(1), draft.add_group()
    rooted = _copy_heads(scale, compute_step(product, "rms_factors", **factors, eps_atto=number(scale, "eps_atto")))
    steps[at.summed : at.summed + 1] = [
        line.copy_with(loop=loop, overlap=overlap),
        rooted.copy_with(loop=loop, overlap=overlap),
        scaled,
    ]
    # 1. The gain with the squares, and rotation while these are summed.
    rotations = [i for i in range(at.scale + 1, at.scores) if touches(steps[i], q.buffer) and steps[i].loop < 0]
    beside = _loop_of_pattern(draft, at.sums) if rotations else None
    rotated = [] if beside is None else [steps[i].copy_with(loop=beside[0], overlap=beside[1]) for i in rotations]
    taken = {at.scale, *(rotations if rotated else ())}
    end = at.sums + 1
    while steps[end].overlap == steps[at.sums].overlap >= 0:
        end += 1
    steps[:] = [
        *steps[: at.squares],
        _with_gain(steps[at.squares], scale),
        *steps[at.squares + 1 : end],
        *rotated,
        *(step for i, step in enumerate(steps) if i >= end and i not in taken),
    ]


def _loop_of_pattern(draft: Draft, line: int) -> tuple[int, int] | None:
    """Return the loop and the overlap group of a pattern, creating a group where it has none."""
    step = draft.steps[line]
    if step.loop >= 0 and (step.overlap < 0 or draft.turns[step.loop] > 1):
        return None
    if step.overlap < 0:
        draft.steps[line] = step.copy_with(loop=draft.add_loop(1), overlap=draft.add_group())
    return draft.steps[line].loop, draft.steps[line].overlap


def _with_gain(squares: SymStep, scale: SymStep) -> SymStep:
    """Return the sum of squares, which also multiplies by the gain where there is one."""
    if not runs(scale, "rms_scale"):
        return squares
    names = {name: address(scale, name) for name in ("x", "gain", "out", "sums")}
    sizes = {name: number(scale, name) for name in ("M", "K", "offset")}
    return _copy_heads(scale, compute_step(squares, "gain_sum_squares", **names, **sizes))


def _copy_heads(scale: SymStep, step: SymStep) -> SymStep:
    """Return a step with vectors over heads if the scaling of queries had them."""
    kernel = kernel_of(step)
    over_heads = scale.over_heads and kernel is not None and kernel.cycles_over_heads is not None
    return step.copy_with(over_heads=over_heads)


def _invalid(spec: ModelSpec, options: Options) -> str:
    if not spec.head_norm:
        return f"{spec.name} does not normalise heads"
    if options.activation_type == "float16":
        return "float16 activations may overflow before they are scaled"
    return needs_float32_sums(spec, options)


REWRITE: Final = Rewrite(
    name="query-scales",
    summary="Scores are scaled by the norms of queries, which are worked out while scores are summed.",
    source="this project: a scale that is one number a head goes where the fewest elements are",
    position=190,
    apply=_apply,
    invalid=_invalid,
)
