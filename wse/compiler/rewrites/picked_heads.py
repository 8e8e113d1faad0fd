"""Softmax's sums divide the values of a row's own heads alone, where a row goes on with no others.

Attention over a latent cache leaves the values of all heads on every PE, since each row of PEs holds entries that all
heads read. A row goes on with the heads whose output projection it has, often one. It divides those as it picks them,
instead of dividing all and then picking; each quotient is the same.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.rewrites.steps import address, compute_step, number, runs, touches
from wse.models.spec import ModelSpec


def _apply(c: Context, draft: Draft, setting: int) -> None:
    steps = draft.steps
    for pick in [step for step in steps if runs(step, "pick_heads")]:
        values = address(pick, "x").buffer
        users = [step for step in steps if touches(step, values)]
        if len(users) != 2 or not runs(users[0], "attention_finish") or users[1] is not pick:
            continue
        finish = users[0]
        operands: dict[str, Operand] = {name: address(finish, name) for name in ("x", "sums")}
        operands |= {name: address(pick, name) for name in ("heads", "out")}
        operands |= {name: number(pick, name) for name in ("M", "H", "Hl", "n")}
        steps[steps.index(pick)] = compute_step(pick, "finish_heads", **operands)
        steps.remove(finish)


def _invalid(spec: ModelSpec, options: Options) -> str:
    return f"{spec.name} has no latent attention" if spec.latent is None else ""


REWRITE: Final = Rewrite(
    name="picked-heads",
    summary="The sums of softmax divide the heads that a row of PEs goes on with, and no others.",
    source="this project: work on values that nobody reads is left out",
    position=60,
    apply=_apply,
    invalid=_invalid,
)
