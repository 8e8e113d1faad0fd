"""Normalisation: sums over the axis that features are cut on, then the scaling. In one pass, mean and variance too.

The variance is that of the mean of squares less the square of the mean, in float32: one all-reduce, where subtracting
the mean first would take two.
"""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.lower.sums import all_reduce
from wse.compiler.lower.vectors import hidden_vector
from wse.compiler.state import At, SymBuffer
from wse.isa.operands import ATTO
from wse.models.graph import Op
from wse.program.steps import COLUMNS, ROWS


def norm(c: Context, op: Op) -> None:
    """x to normed."""
    _normalise(c, op, c.stream, c.temp("normed", c.tokens * c.cut.d, "act"))


def post_norm(c: Context, op: Op) -> None:
    """What a block made, normalised and then added to the residual stream."""
    n = c.tokens * c.cut.d
    made = c.temp("made_by_block", n, "act")
    _normalise(c, op, At(buffer=made), made)
    c.builder.compute("add", x=c.stream, addend=made, n=n)


def rms_eps(c: Context, size: int) -> dict[str, int]:
    """The operands of a scaling over ``size`` features."""
    return {"size": size, "eps_atto": round(c.spec.norm_eps * ATTO)}


def _normalise(c: Context, op: Op, x: At, out: SymBuffer) -> None:
    d, M, b = c.cut.d, c.tokens, c.builder
    gain = hidden_vector(c, op.weights[0], "gain")
    axis, operands = ROWS if c.on_mesh else COLUMNS, rms_eps(c, c.spec.hidden_size)
    offset = int(c.spec.norm_unit_offset)
    if c.spec.norm == "layer":
        bias = hidden_vector(c, f"{op.weights[0]}_bias", "bias")
        sums = c.temp("moments", 2 * M, "f32")
        b.compute("moments", x=x, sums=sums, M=M, K=d)
        all_reduce(c, axis, sums, 2 * M)
        b.compute("layer_scale", x=x, sums=sums, gain=gain, bias=bias, out=out, M=M, K=d, offset=offset, **operands)
        return
    sums = c.temp("sums", M, "f32")
    b.compute("sum_squares", x=x, sums=sums, M=M, K=d)
    all_reduce(c, axis, sums, M)
    b.compute("rms_scale", x=x, sums=sums, gain=gain, out=out, M=M, K=d, offset=offset, **operands)
