"""The SwiGLU feed-forward block: gate and up in one product, the gating, and down with the residual."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.lower.mesh_gemm import into_stream, mesh_gemm, stationary
from wse.graph import Op
from wse.program import COLUMNS


def gate_up(c: Context, op: Op) -> None:
    """normed to hidden, cut over columns."""
    d, f, M = c.cut.d, c.cut.f, c.tokens
    normed, w = c.temp("normed", M * d, "act"), c.tile("+".join(op.weights))
    projected = c.temp("gate_up", M * 2 * f, "acc")
    if c.on_mesh:
        mesh_gemm(c, normed, w, projected, d, 2 * f)
    else:
        stationary(c, normed, w, projected, d, 2 * f, COLUMNS)
    c.builder.compute("swiglu", x=projected, out=c.temp("hidden", M * f, "act"), M=M, n=f)


def down(c: Context, op: Op) -> None:
    """hidden to the residual stream."""
    into_stream(c, c.temp("hidden", c.tokens * c.cut.f, "act"), c.tile(op.weights[0]), c.cut.f)
