"""One matrix product alone: MeshGEMV of a vector, MeshGEMM or a thin GEMM of several."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.lower.mesh_gemm import mesh_gemm, stationary
from wse.graph import Op
from wse.program import COLUMNS


def product(c: Context, op: Op) -> None:
    """Vectors cut as the residual stream is, times a matrix, to vectors cut over columns."""
    d, f, M = c.cut.d, c.cut.f, c.tokens
    x, out, w = c.temp("operand", M * d, "act"), c.temp("product", M * f, "acc"), c.tile(op.weights[0])
    if c.on_mesh:
        mesh_gemm(c, x, w, out, d, f)
    else:
        stationary(c, x, w, out, d, f, COLUMNS)
