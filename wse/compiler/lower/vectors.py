"""Trained vectors where a phase needs them: cut as the hidden vector lies there, or added to complete sums."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.state import At, SymBuffer
from wse.program.steps import COLUMNS
from wse_mappings.patterns.multicast import diagonal_multicast


def hidden_vector(c: Context, name: str, use: str) -> SymBuffer:
    """A vector cut as the hidden vector. On the mesh decode's, held by rows, comes to the columns from the diagonal."""
    if c.own_weights:
        return c.own_tile(name)
    if not c.on_mesh:
        return c.tile(name)
    by_column = c.temp(f"{use}_by_column", c.cut.d, "wgt", "buffers")
    c.builder.line(c.patterns.get(diagonal_multicast, c.cut.rows), COLUMNS, c.tile(name), c.cut.d, target=by_column)
    return by_column


def add_bias(c: Context, x: At | SymBuffer, bias: SymBuffer, n: int) -> None:
    """x[tokens, n] += bias[n], once x is complete."""
    c.builder.compute("add_bias", x=x, bias=bias, M=c.tokens, n=n)
