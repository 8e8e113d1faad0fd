"""One matrix product alone: MeshGEMV of a vector, MeshGEMM or a thin GEMM of several."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.lower.linear import project
from wse.models.graph import Op


def product(c: Context, op: Op) -> None:
    """Vectors cut as the residual stream is, times a matrix, to vectors cut over columns."""
    d, f, M = c.cut.d, c.cut.f, c.tokens
    project(c, c.temp("operand", M * d, "act"), op.weights, (f,), c.temp("product", M * f, "acc"), d)
