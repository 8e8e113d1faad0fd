"""Rewrite: compute cosines and sines of rotary positions while a product is all-reduced.

The angles depend on the position of a token and on frequencies only. Cosines and sines are computed
once and used by all rotations of a block.

1. Cosines and sines are computed in parallel with the last pattern before the first rotation, in
   the overlap group of that pattern if there is one.
2. Rotations read them instead of the frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.builder import BlockSteps, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, compute_step, count, is_line, number, runs, with_operands
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.models.spec import ModelSpec

ROTATIONS: Final = ("rope", "rotate")


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Insert the computation of cosines and sines, and let all rotations of the block read them.

    Nothing is changed if the rotations use different angles. The steps are changed in place, and
    ``setting`` is not used.
    """
    steps = block_steps.steps
    rotations = [i for i, step in enumerate(steps) if any(runs(step, name) for name in ROTATIONS)]
    if not rotations or not all(_is_like(steps[rotations[0]], steps[i]) for i in rotations):
        return
    first = steps[rotations[0]]
    line_index = next((i for i in reversed(range(rotations[0])) if is_line(steps[i])), None)
    if line_index is None or not _may_take_more(block_steps, steps[line_index]):
        return
    M, R = count(first, "M"), count(first, "R")
    cosines_and_sines = SymAddress(buffer=c.temp("rotary_turns", M * R, "f32"))
    for i in rotations:  # 2
        steps[i] = with_operands(steps[i], frequency=cosines_and_sines, turned=fixed_number(1))
    # 1
    line = steps[line_index]
    if line.overlap < 0:
        steps[line_index] = line = line.copy_with(loop=block_steps.add_loop(1), overlap=block_steps.add_group())
    end = _end_of_group(steps, line_index)
    sizes: dict[str, Operand] = {"M": M, "R": R, "multiplier_pico": number(first, "multiplier_pico")}
    rotary_step = compute_step(
        first, "rotary_turns", frequency=address(first, "frequency"), out=cosines_and_sines, **sizes
    )
    steps.insert(end, rotary_step.copy_with(loop=line.loop, overlap=line.overlap))


def _is_like(first: SymStep, step: SymStep) -> bool:
    """Return whether a rotation uses the same angles as the first one, for all tokens at once."""
    has_same_numbers = all(
        count(first, name) == count(step, name) >= 0 for name in ("M", "R", "multiplier_pico", "turned")
    )
    return has_same_numbers and step.loop < 0 and address(first, "frequency") == address(step, "frequency")


def _may_take_more(block_steps: BlockSteps, line: SymStep) -> bool:
    """Return whether further kernels can run in parallel with a pattern.

    A pattern whose overlap group is in a loop, such as a round of a product on the mesh, cannot be
    extended.
    """
    runs_once = line.loop < 0 or block_steps.iterations[line.loop] == 1
    return runs_once and not line.in_chain and (line.overlap >= 0 or line.loop < 0)


def _end_of_group(steps: Sequence[SymStep], index: int) -> int:
    """Return the index after the last step of the overlap group of the step at ``index``."""
    end = index + 1
    while end < len(steps) and steps[end].overlap == steps[index].overlap:
        end += 1
    return end


def _invalid(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite cannot be used: nothing is rotated. Return "" otherwise."""
    return "" if spec.rope else f"{spec.name} rotates nothing"


REWRITE: Final = Rewrite(
    name="early-turns",
    summary="Cosines and sines of rotary positions are computed while a product is all-reduced.",
    source="this project: a step starts as soon as its operands are available",
    position=180,
    apply=_apply,
    invalid=_invalid,
)
