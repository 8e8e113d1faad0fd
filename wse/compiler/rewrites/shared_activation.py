"""Rewrite: divide the computation of activation functions between neighbouring PEs of a column.

The products with gate and up are complete on all PEs of a column after their all-reduce. Without
this rewrite, each of these PEs activates the same n features. With this rewrite, each of g
neighbours activates n / g features and fills in zeros for the others. An exact sum over the g PEs
gives all n features to each of them.

1. The columns are divided into groups of at least g rows.
2. Every PE activates its part. If there are fewer features than neighbours, the features of all
   tokens are divided as one vector. If the input is scaled right before the activation and read
   nowhere else, the PE scales only its own part.
3. An all-reduce inside each group combines the parts. If columns store different experts, its
   length depends on the number of (token, expert) pairs. A pair that ends inside a word is padded
   with zeros, which are stored after all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.shares import combine_shares, sharers_on
from wse.compiler.rewrites.steps import (
    NO_PAIRS,
    address,
    compute_step,
    count,
    is_line,
    kernel_of,
    live_range,
    number,
    pairs_of,
    runs,
    touches,
    varies_by_pairs_only,
)
from wse.compiler.symbolic import SymBuffer, SymNumber, SymStep
from wse.number_formats import WORD_BYTES
from wse.program.steps import COLUMNS
from wse_mappings.cuts.split import even_segments
from wse_mappings.rounding import round_up


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that neighbouring PEs of a column divide activation functions.

    Without this rewrite, all PEs of a column compute the same values. With it, each PE of a group
    of rows computes some of the values, and the PEs then exchange them.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        setting: Minimum number of neighbouring rows that divide the features; fewer divide them if
            a column is shorter (`sharers_on`).
    """
    rows = c.cut.rows
    sharers = sharers_on(rows, setting)
    if not sharers:
        return
    groups = rows // sharers  # 1
    for step in [step for step in block_steps.steps if runs(step, "activate") and step.loop < 0]:
        index = block_steps.steps.index(step)
        line = _last_line(block_steps.steps[:index], address(step, "x").buffer)
        if line is not None and line.axis == COLUMNS and varies_by_pairs_only(number(step, "M")):
            scales = _scales_for(block_steps.steps, index)
            if scales:
                block_steps.steps[index - 1] = _partial_scaling(c, block_steps.steps[index - 1], step, groups)
            has_few_features = not scales and count(step, "n") < sharers and count(step, "M") > 0
            shared_tokens = count(step, "M") if has_few_features else 1
            block_steps.steps[index : index + 1] = _divided_steps(c, step, groups, line, shared_tokens)


def _last_line(earlier_steps: Sequence[SymStep], buffer: SymBuffer) -> SymStep | None:
    """Return the last transfer along rows or columns of PEs (such as an all-reduce) of a buffer.

    The result is None if there is no such transfer.
    """
    return next((step for step in reversed(earlier_steps) if is_line(step) and touches(step, buffer)), None)


def _scales_for(steps: Sequence[SymStep], activation: int) -> bool:
    """Return whether the step before an activation only normalises the input of the activation.

    If so, each PE needs to normalise only the features that it activates. The step must be an RMS
    normalisation of exactly the values that the activation reads, and must not be in a loop. No
    step after the activation may use the normalised values.

    Args:
        steps: Steps of a block.
        activation: Index of the activation.
    """
    step, previous_step, x = steps[activation], steps[activation - 1], address(steps[activation], "x")
    if not runs(previous_step, "rms_scale_sums") or previous_step.loop >= 0 or address(previous_step, "x") != x:
        return False
    width = (1 + count(step, "gated")) * count(step, "n")
    live_steps = live_range(steps, x.buffer, activation)
    is_read_later = live_steps is None or any(
        touches(steps[i], x.buffer) for i in range(activation + 1, live_steps.stop)
    )
    return not is_read_later and (count(previous_step, "M"), count(previous_step, "N")) == (count(step, "M"), width)


def _partial_scaling(c: Context, scaling: SymStep, step: SymStep, groups: int) -> SymStep:
    """Return a step in which each PE scales only the features to which it applies the activation.

    Neighbouring PEs of a column divide the features among themselves.

    Args:
        c: Context of the phase being lowered.
        scaling: Step that scales all features.
        step: The activation step.
        groups: Number of groups of rows. The PEs of a group divide the features of a column.
    """
    kernel = kernel_of(scaling)
    assert kernel is not None
    operands = {name: scaling.operands[i] for name, i in kernel.index.items() if name != "N"}
    sizes = {"n": count(step, "n"), "parts": 1 + count(step, "gated"), "length": c.cut.rows, "groups": groups}
    return compute_step(scaling, "rms_scale_share", **operands, **sizes)


def _divided_steps(c: Context, step: SymStep, groups: int, line: SymStep, shared_tokens: int) -> list[SymStep]:
    """Return steps in which neighbouring PEs divide the work of an activation function.

    The first step applies the function to a PE's part of the features. The second step is an
    all-reduce that gives each PE of a group the results of all features.

    Args:
        c: Context of the phase being lowered.
        step: The step to replace, which applies the function to all features.
        groups: Number of groups of rows. The PEs of a group divide the features of a column.
        line: All-reduce of the activation's input.
        shared_tokens: Number of tokens whose features are concatenated to one vector, which is then
            divided.
    """
    rows, kernel = c.cut.rows, kernel_of(step)
    assert kernel is not None
    operands: dict[str, Operand] = {name: step.operands[i] for name, i in kernel.index.items()}
    tokens, n, out = number(step, "M"), count(step, "n"), address(step, "out")
    padded = _whole_words(c, out.buffer, n) if tokens.per_pair else n
    padding, elements = (
        SymNumber(fixed=tokens.fixed * token_elements, per_pair=tokens.per_pair * token_elements)
        for token_elements in (padded - n, padded)
    )
    c.temp(out.buffer.name, out.offset + elements.fixed, out.buffer.view, out.buffer.use)
    operands |= {"length": rows, "groups": groups, "shared_tokens": shared_tokens, "padding": padding}
    share = compute_step(step, "activate_share", **operands)  # 2
    pairs = pairs_of(line) if tokens.per_pair else NO_PAIRS
    sets = even_segments(0, rows, groups)
    return [share, combine_shares(c, step, COLUMNS, sets, out, elements, pairs)]  # 3


def _whole_words(c: Context, buffer: SymBuffer, elements: int) -> int:
    """Return a number of elements, rounded up so that they fill whole 32-bit words of the buffer."""
    per_word = max(1, WORD_BYTES // c.options.element_bytes(buffer.view))
    return round_up(elements, per_word)


REWRITE: Final = Rewrite(
    name="shared-activation",
    summary="Neighbours in a column each activate a part of the features, and exchange the results.",
    source="this project: work that is replicated along a line is divided where the exchange costs less",
    position=130,
    apply=_apply,
    settings=(8, 4, 16),
)
