"""Rewrite: compute router scores on the columns of the outputs, or for selected experts only.

The outputs of a router are partitioned across columns. Without this rewrite, an all-reduce sends
them to every PE, which computes a sigmoid or an exponential of each. This can be avoided in two
cases:

1. Sigmoid: each column computes the sigmoid of its own outputs before they are distributed. If a
   correction is added for the selection, the column adds it to its own scores and sends both. PEs
   then do not need to store the corrections of all experts.
2. Softmax that is normalised over the selected experts: exp preserves the order, so the experts are
   selected by their outputs, and exp is computed only for the selected experts.

Scores are computed as before if a softmax over all experts is needed. This is the case if weights
are not normalised by their sum, or if groups of experts or a bias determine the choice.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
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


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that router scores are computed on fewer PEs or for fewer experts.

    A sigmoid is computed only on the column of PEs that has the router output. A softmax over the
    selected experts is computed only for those experts. Steps that do not have the expected form
    are not changed. The steps are modified in place. ``setting`` is not used.

    Raises:
        WseBug: After the rewrite, a PE would correct the scores of all experts but store only the
            corrections of its own column.
    """
    steps = block_steps.steps
    for scores in [step for step in steps if runs(step, "router_scores")]:
        index = steps.index(scores)
        is_placed = index >= 2 and is_line(steps[index - 1]) and runs(steps[index - 2], "router_place")
        live_steps = live_range(steps, address(scores, "out").buffer, index)
        if not is_placed or live_steps is None:
            continue
        if count(scores, "sigmoid"):
            _score_on_columns(c, block_steps, index, live_steps)
        else:
            _score_selected(block_steps, index, live_steps)
    for step in (step for step in steps if runs(step, "router_correct")):
        if address(step, "correction").buffer.elements < count(step, "E"):
            raise WseBug("every PE corrects the scores of all experts, but stores only the corrections of its column")


def _score_on_columns(c: Context, block_steps: BlockSteps, index: int, live_steps: range) -> None:
    """Make each column of PEs compute the sigmoid of its own router outputs before the all-reduce.

    Args:
        c: Context of the phase being lowered.
        block_steps: The steps of the block, modified in place.
        index: Index of the step that computes the scores of all experts.
        live_steps: Indices of the steps in which the scores are needed.
    """
    steps = block_steps.steps
    scores, place = steps[index], steps[index - 2]
    M, n, logits = count(place, "M"), count(place, "n"), address(place, "out")
    column_scores = SymAddress(buffer=c.temp("router_scores_of_column", M * n, "acc"))
    move_buffer(steps, live_steps, address(scores, "out").buffer, logits.buffer, 0)
    operands: dict[str, Operand] = {"x": address(place, "x"), "out": column_scores, "M": M, "E": n, "sigmoid": 1}
    steps[index - 2 : index + 1] = [
        compute_step(place, "router_scores", **operands),
        with_operands(place, x=column_scores),
        steps[index - 1],
    ]
    correct = steps[index + 1]
    if runs(correct, "router_correct") and address(correct, "correction").buffer.elements == n:
        _correct_on_columns(c, steps, index + 1)


def _correct_on_columns(c: Context, steps: list[SymStep], index: int) -> None:
    """Make each column of PEs correct its own scores, and send original and corrected scores.

    Corrected scores are used only to select experts. The weights of the experts are computed from
    the original scores.

    Args:
        c: Context of the phase being lowered.
        steps: Steps of the block, changed in place.
        index: Index of the step that corrects scores.
    """
    reduce_step, place, correct = steps[index - 1], steps[index - 2], steps[index]
    M, n, E = (count(place, name) for name in ("M", "n", "E"))
    column_choice = SymAddress(buffer=c.temp("router_choice_of_column", M * n, "acc"))
    scores = address(place, "out")
    choice = SymAddress(buffer=c.temp(scores.buffer.name, 2 * M * E, "acc"), offset=M * E)
    operands: dict[str, Operand] = {"x": address(place, "x"), "correction": address(correct, "correction")}
    corrected = address(correct, "out").buffer
    steps[index - 2 : index + 1] = [
        compute_step(place, "router_correct", **operands, out=column_choice, M=M, E=n),
        place,
        with_operands(place, x=column_choice, out=choice),
        with_operands(reduce_step, elements=fixed_number(2 * M * E)),
    ]
    index += 2
    if runs(steps[index], "router_limit") and address(steps[index], "x").buffer is corrected:
        corrected = address(steps[index], "out").buffer
        steps[index] = with_operands(steps[index], x=choice, out=choice)
        index += 1
    assert runs(steps[index], "router_choose")
    assert address(steps[index], "choice").buffer is corrected
    steps[index] = with_operands(steps[index], choice=choice, scores=scores)


def _score_selected(block_steps: BlockSteps, index: int, live_steps: range) -> None:
    """Select experts by their router outputs, and apply the softmax only to the selected experts.

    Args:
        block_steps: The steps of the block, modified in place.
        index: Index of the step that computes the scores of all experts.
        live_steps: Indices of the steps in which the scores are needed.
    """
    steps = block_steps.steps
    scores, choose = steps[index], steps[index + 1]
    if not runs(choose, "router_choose"):
        return
    move_buffer(steps, live_steps, address(scores, "out").buffer, address(scores, "x").buffer, 0)
    choose = with_operands(steps[index + 1], normalised=fixed_number(0), scale_pico=fixed_number(PICO))
    choice_addresses = {name: address(choose, name) for name in ("ids", "weights")}
    sizes = {name: number(choose, name) for name in ("M", "A")}
    scale = number(steps[index + 1], "scale_pico")
    softmax = compute_step(choose, "chosen_softmax", **choice_addresses, **sizes, scale_pico=scale)
    steps[index : index + 2] = [choose, softmax]


def _invalid(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite is invalid for a model and request; "" if it is valid.

    It is invalid if the model needs a softmax over all experts, or if sums are not float32.
    """
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
    summary="A router's sigmoid is computed on the columns of its outputs, its softmax for selected experts only.",
    source="this project: a function of divided values is computed before they are replicated",
    position=80,
    apply=_apply,
    invalid=_invalid,
)
