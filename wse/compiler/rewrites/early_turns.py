"""Rewrite: compute the cosines and sines of rotary positions while a product is all-reduced.

Without this rewrite, every rotation of queries or keys computes the cosines and sines itself. They
depend only on the token position and the rotary frequencies, not on the product that is rotated.

1. Cosines and sines are computed once, in parallel with the last transfer along rows or columns
   before the first rotation. They join the overlap group of that transfer if there is one.
2. All rotations of the block read these values instead of the frequencies.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs
from wse.compiler.rewrites.steps import address, compute_step, count, is_line, number, runs, with_operands
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number

ROTATIONS: Final = ("rope", "rotate")


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that rotary cosines and sines are computed once, during a transfer.

    All rotations of the layer then read these values. Nothing is changed if the rotations use
    different angles, or if no kernel can run in parallel with the preceding transfer. ``setting``
    is not used.
    """
    steps = block_steps.steps
    rotations = [i for i, step in enumerate(steps) if any(runs(step, name) for name in ROTATIONS)]
    if not rotations or not all(_has_same_angles(steps[rotations[0]], steps[i]) for i in rotations):
        return
    first = steps[rotations[0]]
    line_index = next((i for i in reversed(range(rotations[0])) if is_line(steps[i])), None)
    group = None if line_index is None else block_steps.group_of_pattern(line_index)
    if line_index is None or group is None:
        return
    M, R = count(first, "M"), count(first, "R")
    cosines_and_sines = SymAddress(buffer=c.temp("rotary_turns", M * R, "f32"))
    for i in rotations:  # 2
        steps[i] = with_operands(steps[i], frequency=cosines_and_sines, turned=fixed_number(1))
    # 1
    sizes: dict[str, Operand] = {"M": M, "R": R, "multiplier_pico": number(first, "multiplier_pico")}
    rotary_step = compute_step(
        first, "rotary_turns", frequency=address(first, "frequency"), out=cosines_and_sines, **sizes
    )
    steps.insert(block_steps.end_of_group(line_index), rotary_step.copy_with(**group))


def _has_same_angles(first: SymStep, step: SymStep) -> bool:
    """Return whether a step rotates queries or keys by the same angles as an earlier step.

    The result is True only if both steps also rotate all tokens at once and the later step is
    outside loops.

    Args:
        first: The earlier step.
        step: The later step.
    """
    has_same_numbers = all(
        count(first, name) == count(step, name) >= 0 for name in ("M", "R", "multiplier_pico", "turned")
    )
    return has_same_numbers and step.loop < 0 and address(first, "frequency") == address(step, "frequency")


REWRITE: Final = Rewrite(
    name="early-turns",
    summary="Cosines and sines of rotary positions are computed while a product is all-reduced.",
    source="this project: a step starts as soon as its operands are available",
    position=180,
    apply=_apply,
    invalid=needs(lambda spec: spec.rope, "rotates nothing"),
)
