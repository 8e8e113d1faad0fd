"""A router's scores where its outputs are: on the columns that have them, or of the chosen experts alone.

The router's outputs are cut over columns, and an all-reduce brings all of them to every PE, where a sigmoid or an exp
is taken of each. Two forms save that:

1. Sigmoid: each column takes it of its own few outputs, before they are brought together. Where a correction decides
   the choice, the column adds it to them and sends both, so that no PE stores the correction of all.
2. Softmax over the chosen alone, which is what dividing by the sum of the chosen ones' scores comes to: the largest
   outputs are chosen, as exp keeps their order, and exp is taken of these.

Where a softmax over all experts is needed (weights that are not divided by their sum, groups of experts, or a bias that
decides the choice) the scores stay where they are.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.options import ROUTER_SCORES, Options
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    is_line,
    live_range,
    move_buffer,
    number,
    runs,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.errors import WseBug
from wse.models.spec import ModelSpec
from wse.program.isa.operands import PICO


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    for scores in [step for step in steps if runs(step, "router_scores")]:
        index = steps.index(scores)
        placed = index >= 2 and is_line(steps[index - 1]) and runs(steps[index - 2], "router_place")
        within = live_range(steps, address(scores, "out").buffer, index)
        if not placed or within is None:
            continue
        if count(scores, "sigmoid"):
            _take_on_columns(c, draft, index, within)
        else:
            _take_of_chosen(draft, index, within)
    for step in (step for step in steps if runs(step, "router_correct")):
        if address(step, "correction").buffer.elements < count(step, "E"):
            message = "scores of all experts on every PE, and the correction of a column's own alone"
            raise WseBug(message)


def _take_on_columns(c: Context, draft: Draft, index: int, within: range) -> None:
    """1. Compute the scores of a column's own outputs before they are all-reduced."""
    steps = draft.steps
    scores, place = steps[index], steps[index - 2]
    M, n, logits = count(place, "M"), count(place, "n"), address(place, "out")
    own = SymAddress(buffer=c.temp("router_scores_of_column", M * n, "acc"))
    move_buffer(steps, within, address(scores, "out").buffer, logits.buffer, 0)
    operands: dict[str, Operand] = {"x": address(place, "x"), "out": own, "M": M, "E": n, "sigmoid": 1}
    steps[index - 2 : index + 1] = [
        compute_step(place, "router_scores", **operands),
        with_operands(place, x=own),
        steps[index - 1],
    ]
    correct = steps[index + 1]
    if runs(correct, "router_correct") and address(correct, "correction").buffer.elements == n:
        _correct_on_columns(c, steps, index + 1)


def _correct_on_columns(c: Context, steps: list[SymStep], index: int) -> None:
    """Return the steps with scores followed by corrected scores, instead of correcting all scores everywhere."""
    summed, place, correct = steps[index - 1], steps[index - 2], steps[index]
    M, n, E = (count(place, name) for name in ("M", "n", "E"))
    own = SymAddress(buffer=c.temp("router_choice_of_column", M * n, "acc"))
    scores = address(place, "out")
    choice = SymAddress(buffer=c.temp(scores.buffer.name, 2 * M * E, "acc"), offset=M * E)
    operands: dict[str, Operand] = {"x": address(place, "x"), "correction": address(correct, "correction")}
    corrected = address(correct, "out").buffer
    steps[index - 2 : index + 1] = [
        compute_step(place, "router_correct", **operands, out=own, M=M, E=n),
        place,
        with_operands(place, x=own, out=choice),
        with_operands(summed, elements=fixed_number(2 * M * E)),
    ]
    index += 2
    if runs(steps[index], "router_limit") and address(steps[index], "x").buffer is corrected:
        corrected = address(steps[index], "out").buffer
        steps[index] = with_operands(steps[index], x=choice, out=choice)
        index += 1
    assert runs(steps[index], "router_choose")
    assert address(steps[index], "choice").buffer is corrected
    steps[index] = with_operands(steps[index], choice=choice, scores=scores)


def _take_of_chosen(draft: Draft, index: int, within: range) -> None:
    """2. Choose by outputs, and compute the softmax of the chosen experts."""
    steps = draft.steps
    scores, choose = steps[index], steps[index + 1]
    if not runs(choose, "router_choose"):
        return
    move_buffer(steps, within, address(scores, "out").buffer, address(scores, "x").buffer, 0)
    choose = with_operands(steps[index + 1], normalised=fixed_number(0), scale_pico=fixed_number(PICO))
    chosen = {name: address(choose, name) for name in ("ids", "weights")}
    sizes = {name: number(choose, name) for name in ("M", "A")}
    scale = number(steps[index + 1], "scale_pico")
    softmax = compute_step(choose, "chosen_softmax", **chosen, **sizes, scale_pico=scale)
    steps[index : index + 2] = [choose, softmax]


def _invalid(spec: ModelSpec, options: Options) -> str:
    experts = spec.experts
    if experts is None:
        return f"{spec.name} has no router"
    if experts.scoring == "softmax" and not experts.normalised:
        return f"{spec.name} weighs by a softmax over all experts"
    if experts.scoring == "softmax" and (experts.correction or experts.groups > 1):
        return f"{spec.name} chooses by a softmax over all experts and a bias or groups"
    return needs_float32_sums(spec, options)


REWRITE: Final = Rewrite(
    name=ROUTER_SCORES,
    summary="A router's sigmoid is taken on the columns that have its outputs, its softmax of chosen experts alone.",
    source="this project: a function of cut values is taken before they are replicated",
    position=80,
    apply=_apply,
    invalid=_invalid,
)
