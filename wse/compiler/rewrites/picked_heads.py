"""Rewrite: divide only the heads that a row of PEs uses afterwards by the softmax sums.

After latent attention, every PE has the weighted values of all heads, because each row stores cache
entries that all heads read. A row continues with the heads whose output projection it stores, often
a single head. With this rewrite, it selects and divides these heads in one kernel instead of
dividing all heads first. The quotients are the same.
"""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, needs_latent_attention
from wse.compiler.rewrites.steps import address, compute_step, number, runs, touches


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Change a layer's steps so that each row finishes the softmax only for the heads it uses.

    Each row of PEs selects its attention heads before, instead of after, the division by the
    softmax sums. Nothing is changed if other steps read the results of all heads. ``setting`` is
    not used.
    """
    steps = block_steps.steps
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


REWRITE: Final = Rewrite(
    name="picked-heads",
    summary="Only the heads that a row of PEs uses afterwards are divided by the softmax sums.",
    source="this project: values that are not read are not computed",
    position=60,
    apply=_apply,
    invalid=needs_latent_attention,
)
