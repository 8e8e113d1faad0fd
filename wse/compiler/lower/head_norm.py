"""Normalisation of each head's queries and keys, their sums of squares added up inside the head's group of columns."""

from __future__ import annotations

from collections.abc import Sequence

from wse.compiler.lower.context import Context
from wse.compiler.lower.norm import rms_eps
from wse.compiler.lower.sums import reduce_in_groups
from wse.compiler.state import At, SymBuffer


def normalise_heads(c: Context, heads: Sequence[tuple[SymBuffer, int]], gains: Sequence[str]) -> None:
    """Scale heads ``[tokens, count, F]`` in place by their root mean square, and by ``gains`` where there are any.

    ``heads`` are (buffer, count of heads) each; ``gains`` the names of as many vectors over a head's features.
    """
    F, M, b = c.heads[3], c.tokens, c.builder
    rows = [M * count for _, count in heads]
    sums = c.temp("head_sums", sum(rows), "f32")
    parts = [At(buffer=sums, offset=sum(rows[:i])) for i in range(len(rows))]
    for (x, _), part, n in zip(heads, parts, rows, strict=True):
        b.compute("sum_squares", x=x, sums=part, M=n, K=F)
    reduce_in_groups(c, sums, sum(rows))
    operands, offset = rms_eps(c, c.spec.head_size), int(c.spec.norm_unit_offset)
    for i, ((x, _), part, n) in enumerate(zip(heads, parts, rows, strict=True)):
        if gains:
            gain = c.tile(gains[i])
            b.compute("rms_scale", x=x, sums=part, gain=gain, out=x, M=n, K=F, offset=offset, **operands)
        else:
            b.compute("l2_scale", x=x, sums=part, M=n, K=F, **operands)
