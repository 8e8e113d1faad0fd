"""Cosines and sines of a token's place computed while a product is summed, once for all that they rotate.

The angles of rotary positions depend on the place of a token and by frequencies, and by nothing that a layer makes.

1. They are computed beside the last pattern before the first rotation: in its group, where it has one.
2. Rotations take them from there, instead of the frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, compute_step, count, is_line, number, runs, with_operands
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.models.spec import ModelSpec

ROTATIONS: Final = ("rope", "rotate")


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    rotations = [i for i, step in enumerate(steps) if any(runs(step, name) for name in ROTATIONS)]
    if not rotations or not all(_is_like(steps[rotations[0]], steps[i]) for i in rotations):
        return
    first = steps[rotations[0]]
    beside = next((i for i in reversed(range(rotations[0])) if is_line(steps[i])), None)
    if beside is None or not _may_take_more(draft, steps[beside]):
        return
    M, R = count(first, "M"), count(first, "R")
    turns = SymAddress(buffer=c.temp("rotary_turns", M * R, "f32"))
    for i in rotations:  # 2
        steps[i] = with_operands(steps[i], frequency=turns, turned=fixed_number(1))
    # 1
    line = steps[beside]
    if line.overlap < 0:
        steps[beside] = line = line.copy_with(loop=draft.add_loop(1), overlap=draft.add_group())
    end = _end_of_group(steps, beside)
    sizes: dict[str, Operand] = {"M": M, "R": R, "multiplier_pico": number(first, "multiplier_pico")}
    worked_out = compute_step(first, "rotary_turns", frequency=address(first, "frequency"), out=turns, **sizes)
    steps.insert(end, worked_out.copy_with(loop=line.loop, overlap=line.overlap))


def _is_like(first: SymStep, step: SymStep) -> bool:
    """Return whether a rotation uses the same angles as the first one, for all tokens at once."""
    same = all(count(first, name) == count(step, name) >= 0 for name in ("M", "R", "multiplier_pico", "turned"))
    return same and step.loop < 0 and address(first, "frequency") == address(step, "frequency")


def _may_take_more(draft: Draft, line: SymStep) -> bool:
    """Return whether further kernels can overlap with a pattern.

    Rounds of a product on the mesh are a group in a loop.
    """
    once = line.loop < 0 or draft.turns[line.loop] == 1
    return once and not line.in_chain and (line.overlap >= 0 or line.loop < 0)


def _end_of_group(steps: Sequence[SymStep], index: int) -> int:
    end = index + 1
    while end < len(steps) and steps[end].overlap == steps[index].overlap:
        end += 1
    return end


def _invalid(spec: ModelSpec, options: Options) -> str:
    return "" if spec.rope else f"{spec.name} rotates nothing"


REWRITE: Final = Rewrite(
    name="early-turns",
    summary="Cosines and sines of rotary positions are worked out while a product is summed.",
    source="this project: a step starts when its operands are there",
    position=180,
    apply=_apply,
    invalid=_invalid,
)
