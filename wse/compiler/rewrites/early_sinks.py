"""Exponentials of attention sinks while sums and values travel, as soon as the maxima are known.

A sink is a trained score of each head that joins the softmax without a value. Its weight asks for the common maximum,
and for nothing of the sums to which it is added once they are there.

1. The weights of sinks are computed beside the last all-reduce before they are added, where that one has no maxima.
2. After it they are added.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, compute_step, count, is_line, runs, touches
from wse.compiler.symbolic import SymAddress, SymStep
from wse.models.spec import ModelSpec


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    for sinks in [step for step in steps if runs(step, "sink_sums") and step.loop < 0]:
        index = steps.index(sinks)
        if index and _may_run_beside(sinks, steps[index - 1]):
            loop, overlap = draft.add_loop(1), draft.add_group()
            M, H = count(sinks, "M"), count(sinks, "H")
            weights = SymAddress(buffer=c.temp("sink_weights", M * H, "f32"))
            scores: dict[str, Operand] = {name: address(sinks, name) for name in ("maxima", "sinks")}
            steps[index - 1 : index + 1] = [
                steps[index - 1].copy_with(loop=loop, overlap=overlap),
                compute_step(sinks, "sink_weights", **scores, out=weights, M=M, H=H).copy_with(  # 1
                    loop=loop, overlap=overlap
                ),
                compute_step(sinks, "add_statistics", x=address(sinks, "sums"), addend=weights, n=M * H),  # 2
            ]


def _may_run_beside(sinks: SymStep, line: SymStep) -> bool:
    """Return whether everything that a step reads except the sums is available before a pattern that runs alone."""
    return (
        is_line(line) and (line.loop, line.overlap) == (-1, -1) and not touches(line, address(sinks, "maxima").buffer)
    )


def _invalid(spec: ModelSpec, options: Options) -> str:
    return "" if spec.sinks else f"{spec.name} has no sinks"


REWRITE: Final = Rewrite(
    name="early-sinks",
    summary="Weights of attention sinks are worked out while sums and values are summed.",
    source="this project: a step starts when its operands are there",
    position=170,
    apply=_apply,
    invalid=_invalid,
)
