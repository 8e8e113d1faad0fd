"""Layers whose parts need the stream before them: split feed-forward blocks, and parallel blocks.

A feed-forward block may be split between stages, whose parts all read the same input. In a model
with parallel blocks, attention and feed-forward block do so. The residual stream is then stored in
one buffer with this input and, if the first part of a split block sends it, the expert selection. A
single transfer can then send everything.
"""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import SENT_CHOICE
from wse.compiler.symbolic import SymAddress


def keeps_input(c: Context) -> bool:
    """Return whether the input of the current part of a layer is stored for other parts.

    This is the case if a feed-forward block is split between stages, or if attention and
    feed-forward block read the same input (parallel blocks).
    """
    return c.parts.cuts_block or c.spec.parallel_blocks


def stream_before_block(c: Context) -> SymAddress:
    """Return the address of the residual stream that all parts of a layer read.

    The parts are those of a split feed-forward block, or attention and a block that is parallel to
    it. The stream to which they add their results follows in the same buffer, so that both can be
    sent in one transfer. If the first part of a split block also sends its selection of experts,
    the stream at this address is already normalised.
    """
    return SymAddress(buffer=c.temp("streams", 2 * c.tokens * c.cut.hidden_per_pe, "act"))


def stream_of_parts(c: Context) -> SymAddress:
    """Return the address of the residual stream to which the parts of a layer add.

    If the parts are on several stages, the stream is sent from stage to stage, and each part adds
    its output.
    """
    return replace(stream_before_block(c), offset=c.tokens * c.cut.hidden_per_pe)


def choice_of_parts(c: Context) -> tuple[SymAddress, SymAddress]:
    """Return the addresses of the expert ids and weights that are sent within a split block.

    The parts of the block are on different stages. The first part selects the experts. Ids and
    weights follow the two residual streams in memory, so that one transfer can send everything.
    """
    assert c.spec.experts is not None
    vectors, pair_count = 2 * c.tokens * c.cut.hidden_per_pe, c.tokens * c.spec.experts.active
    buffer = c.temp("streams", vectors + 2 * pair_count, "act")
    return SymAddress(buffer=buffer, offset=vectors), SymAddress(buffer=buffer, offset=vectors + pair_count)


def end_split_block(c: Context) -> None:
    """Copy the residual stream back to its usual buffer after the last part of a layer.

    Until then, the stream is stored in a buffer that also contains the input of the parts.
    """
    parts, elements = c.stream, c.tokens * c.cut.hidden_per_pe
    c.enter_stage(c.builder.stage)
    c.builder.compute("copy", out=c.stream, x=parts, n=elements)


def sends_choice(c: Context, layer: int) -> bool:
    """Return whether a split layer's first stage sends its selected experts to the next stages.

    The parts of a split layer are on different stages, which would otherwise all select the
    experts. Sending the selection requires the rewrite `sent_choice`, a single token, and regions
    with the same number of rows, because each row sends to the same row of the next region.
    """
    rows = {(c.cuts[stage].rows, c.cuts[stage].hidden_group) for stage, _ in c.cuts_of_parts}
    one_token = c.tokens == 1 and not c.on_mesh
    return one_token and len(rows) == 1 and c.spec.layers[layer].experts and SENT_CHOICE in c.rewrites
