"""RMSNorm: the sum of squares over the axis that features are cut on, then the scaling."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.graph import Op
from wse.program import COLUMNS, ROWS
from wse_mappings.patterns.multicast import diagonal_multicast


def norm(c: Context, op: Op) -> None:
    """x to normed. On the mesh decode's gain, held by rows, comes to the columns from the diagonal."""
    d, M, b = c.cut.d, c.tokens, c.builder
    gain = c.own_tile(op.weights[0]) if c.own_weights else c.tile(op.weights[0])
    if c.on_mesh and not c.own_weights:
        by_column = c.temp("gain_by_column", d, "wgt", "buffers")
        b.line(c.patterns.get(diagonal_multicast, c.cut.rows), COLUMNS, gain, d, target=by_column)
        gain = by_column
    sums = c.temp("sums", M, "f32")
    normed = c.temp("normed", M * d, "act")
    b.compute("sum_squares", x=c.stream, sums=sums, M=M, K=d)
    c.all_reduce(ROWS if c.on_mesh else COLUMNS, sums, M)
    eps_atto = round(c.spec.norm_eps * 1e18)
    size = c.spec.hidden_size
    b.compute("rms_scale", x=c.stream, sums=sums, gain=gain, out=normed, M=M, K=d, size=size, eps_atto=eps_atto)
