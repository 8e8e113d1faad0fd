"""Feed-forward block: gate and up side by side (or up alone), the activation, and down."""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.linear import project, project_to_stream
from wse.compiler.lowering.local_product import local_product
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.models.op import Op
from wse.program.isa.activation import ACTIVATIONS
from wse.program.isa.operands import PICO
from wse.program.steps import COLUMNS


def gate_up(c: Context, op: Op) -> None:
    """Lower a feed-forward block's gate and up projections (or only up) and activation to steps.

    The input is ``[tokens, d]``, with d hidden features per PE. The result is ``[tokens, f]``,
    where f is the number of the block's features that each column of PEs stores.
    """
    if op.weights[-1].endswith("shared.scale"):
        _scaled_gate_up(c, op)
        return
    d, f, M = c.cut.hidden_per_pe, c.cut.feed_forward(op.kind).shape[1], c.tokens
    widths = (f,) * len(op.weights)
    projected = c.temp("gate_up", M * sum(widths), "acc")
    project(c, c.normed_hidden, op.weights, widths, projected, d, bias=bool(op.vectors))
    activate(c, projected, c.temp("hidden", M * f, "act"), M, f)


def _scaled_gate_up(c: Context, op: Op) -> None:
    """Add the steps for the first half of a shared expert whose output has a factor per token.

    The first half consists of the input projections and the activation. The factor of a token is
    the sigmoid of a projection to one feature. Every column computes this feature, and one
    all-reduce adds it up together with the features of the block. Because the down-projection is
    linear, the factor is applied to its input instead of its output.
    """
    *projections, scale = op.weights
    d, f, M, x = c.cut.hidden_per_pe, c.cut.feed_forward(op.kind).shape[1], c.tokens, c.normed_hidden
    N = f * len(projections)
    projected, hidden = c.temp("gate_up", M * (N + 1), "acc"), c.temp("hidden", M * f, "act")
    scales = SymAddress(buffer=projected, offset=M * N)
    local_product(c, x, c.tile("+".join(projections)), projected, d, N, stride=N, out_stride=N)
    local_product(c, x, c.tile(scale), scales, d, 1, stride=1, out_stride=1)
    all_reduce(c, COLUMNS, projected, M * (N + 1))
    activate(c, projected, hidden, M, f)
    apply_gate(c, hidden, scales, n=f, stride=1, gates=1)


def apply_gate(
    c: Context,
    x: SymBuffer | SymAddress,
    gate: SymAddress,
    *,
    n: int,
    stride: int,
    gates: int,
    is_factor: bool = False,
) -> None:
    """Add a step that multiplies each token's features by the sigmoid of its gates, in place.

    Args:
        c: Context of the phase being lowered.
        x: Features ``[tokens, n]``.
        gate: Gates of the first token.
        n: Features per token.
        stride: Distance from the gates of one token to those of the next, in elements.
        gates: Gates per token: n, or 1 for all features.
        is_factor: Whether to multiply by the gates themselves, without the sigmoid.
    """
    c.builder.compute(
        "apply_gate", x=x, gate=gate, M=c.tokens, n=n, stride=stride, gates=gates, function=int(is_factor)
    )


def activate(c: Context, x: SymBuffer, out: SymBuffer, M: int | SymNumber, n: int) -> None:
    """Add a step that applies the activation function of a feed-forward block.

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
    project_to_stream(c, op, c.temp("hidden", c.tokens * f, "act"), f, bias=bool(op.vectors))


OPS: Final = {"gate_up": gate_up, "down": down, "shared_gate_up": gate_up, "shared_down": down}
"""Lowering function of each kind of op."""
