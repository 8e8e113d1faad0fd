"""Scaling of the residual stream by a trained number after a layer."""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.feed_forward import apply_gate
from wse.compiler.lowering.phase.context import Context
from wse.compiler.symbolic import SymAddress
from wse.models.op import Op


def stream_scale(c: Context, op: Op) -> None:
    """Add the step that multiplies the residual stream by the layer's number.

    Every PE stores this number, and uses it as the gate of all tokens and features.
    """
    number = SymAddress(buffer=c.tile(f"layers.{op.layer}.stream_scale"))
    apply_gate(c, c.stream, number, n=c.cut.hidden_per_pe, stride=0, gates=1, is_factor=True)


OPS: Final = {"stream_scale": stream_scale}
"""Lowering function of each kind of op."""
