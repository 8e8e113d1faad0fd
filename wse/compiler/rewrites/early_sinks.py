"""Rewrite: compute the exponentials of attention sinks while sums and values are all-reduced.

A sink is a trained score per head that participates in the softmax but has no value. Its weight,
exp(sink - maximum), is added to the softmax sums. It depends on the common maximum but not on these
sums.

1. The sink weights are computed in parallel with the last all-reduce before they are needed, unless
   that is the all-reduce of the maxima.
2. The weights are added to the sums after the all-reduce.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs
from wse.compiler.rewrites.steps import address, compute_step, count, is_line, runs, touches
from wse.compiler.symbolic import SymAddress, SymStep


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that weights of attention sinks are computed during an all-reduce.

    An attention sink is a trained score per head that takes part in the softmax but has no value.
    Its softmax weight does not need the result of the preceding all-reduce. ``setting`` is not
    used.
    """
    steps = block_steps.steps
    for sinks in [step for step in steps if runs(step, "sink_sums") and step.loop < 0]:
        index = steps.index(sinks)
        if index and _may_run_beside(sinks, steps[index - 1]):
            group = block_steps.add_group()
            M, H = count(sinks, "M"), count(sinks, "H")
            weights = SymAddress(buffer=c.temp("sink_weights", M * H, "f32"))
            scores: dict[str, Operand] = {name: address(sinks, name) for name in ("maxima", "sinks")}
            steps[index - 1 : index + 1] = [
                steps[index - 1].copy_with(**group),
                compute_step(sinks, "sink_weights", **scores, out=weights, M=M, H=H).copy_with(**group),  # 1
                compute_step(sinks, "add_statistics", x=address(sinks, "sums"), addend=weights, n=M * H),  # 2
            ]


def _may_run_beside(sinks: SymStep, line: SymStep) -> bool:
    """Return whether the softmax weights of attention sinks can be computed during another step.

    An attention sink is a trained score per head that takes part in the softmax but has no value.
    The other step must be a transfer along rows or columns, outside loops and overlap groups, that
    does not change the softmax maxima.

    Args:
        sinks: Step that computes the weights of the sinks.
        line: The other step.
    """
    return (
        is_line(line) and (line.loop, line.overlap) == (-1, -1) and not touches(line, address(sinks, "maxima").buffer)
    )


REWRITE: Final = Rewrite(
    name="early-sinks",
    summary="Weights of attention sinks are computed while sums and values are all-reduced.",
    source="this project: a step starts as soon as its operands are available",
    position=170,
    apply=_apply,
    invalid=needs(lambda spec: spec.sinks, "has no sinks"),
)
