"""The SwiGLU feed-forward block: gate and up side by side, the gating, and down with the residual."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.lower.linear import into_stream, project
from wse.graph import Op


def gate_up(c: Context, op: Op) -> None:
    """normed to hidden, cut over columns."""
    d, f, M = c.cut.d, c.cut.f, c.tokens
    projected = c.temp("gate_up", M * 2 * f, "acc")
    project(c, c.temp("normed", M * d, "act"), op.weights, (f, f), projected, d)
    c.builder.compute("swiglu", x=projected, out=c.temp("hidden", M * f, "act"), M=M, n=f)


def down(c: Context, op: Op) -> None:
    """hidden to the residual stream."""
    into_stream(c, c.temp("hidden", c.tokens * c.cut.f, "act"), op.weights[0], c.cut.f)
