"""Feed-forward block: gate and up side by side (or up alone), the activation, and down."""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.linear import project, project_to_stream
from wse.compiler.lowering.phase.context import Context
from wse.compiler.symbolic import SymBuffer, SymNumber
from wse.models.graph import Op
from wse.program.isa.activation import ACTIVATIONS
from wse.program.isa.operands import PICO


def gate_up(c: Context, op: Op) -> None:
    """Lower a feed-forward block's gate and up projections (or only up) and activation to steps.

    The input is ``[tokens, d]``, with d hidden features per PE. The result is ``[tokens, f]``, with
    f of the block's features on each column.
    """
    d, f, M = c.cut.hidden_per_pe, c.cut.feed_forward(op.kind).shape[1], c.tokens
    widths = (f,) * len(op.weights)
    projected = c.temp("gate_up", M * sum(widths), "acc")
    project(c, c.normed_hidden, op.weights, widths, projected, d, bias=bool(op.vectors))
    activate(c, projected, c.temp("hidden", M * f, "act"), M, f)


def activate(c: Context, x: SymBuffer, out: SymBuffer, M: int | SymNumber, n: int) -> None:
    """Lower the activation function of a feed-forward block to a step.

    Args:
        c: Context of the phase being lowered.
        x: Input: ``[M, 2 n]`` for gated blocks, ``[M, n]`` for others.
        out: Output, ``[M, n]``.
        M: Number of vectors: tokens, or (token, expert) pairs.
        n: Features per column of PEs.
    """
    c.builder.compute(
        "activate",
        x=x,
        out=out,
        M=M,
        n=n,
        function=ACTIVATIONS.index(c.spec.activation),
        gated=int(c.spec.gated),
        limit_pico=round(PICO * c.spec.activation_limit),
    )


def down(c: Context, op: Op) -> None:
    """Lower the down-projection of a feed-forward block to steps; add it to the residual stream."""
    f = c.cut.feed_forward(op.kind).shape[1]
    project_to_stream(c, c.temp("hidden", c.tokens * f, "act"), op.weights[0], f, bias=bool(op.vectors))


OPS: Final = {"gate_up": gate_up, "down": down, "shared_gate_up": gate_up, "shared_down": down}
"""Lowering function of each kind of op."""
