"""Layers in which several parts read the same input: split feed-forward blocks, parallel blocks.

If a feed-forward block is split between stages, all of its parts read the input of the block. In a
model with parallel blocks, attention and the feed-forward block read the same input. In both cases,
the input must be kept until its last use, although the residual stream changes before. Input and
residual stream are stored in one buffer, so that a single transfer sends both to the next stage. If
the first part of a split block sends its expert selection, the selection is in the buffer as well.
"""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import SENT_CHOICE
from wse.compiler.symbolic import SymAddress


def keeps_input(c: Context) -> bool:
    """Return whether the input of the current part of a layer is kept, because other parts read it.

    This is the case if a feed-forward block is split between stages, or if attention and
    feed-forward block read the same input (parallel blocks).
    """
    return c.parts.cuts_block or c.spec.parallel_blocks


def stream_before_block(c: Context) -> SymAddress:
    """Return the address of the input that several parts of a layer read.

    The parts are those of a feed-forward block that is split between stages, or attention and a
    parallel feed-forward block. The input is the residual stream before the parts. It is already
    normalised if the first part of a split block sends its selection of experts.
    """
    return SymAddress(buffer=c.temp("streams", 2 * c.tokens * c.cut.hidden_per_pe, "act"))


def stream_of_parts(c: Context) -> SymAddress:
    """Return the address of the residual stream to which the parts of a layer add their outputs.

    The stream directly follows the input of the parts in the same buffer. If the parts are on
    different stages, both are sent from stage to stage in one transfer.
    """
    return replace(stream_before_block(c), offset=c.tokens * c.cut.hidden_per_pe)


def choice_of_parts(c: Context) -> tuple[SymAddress, SymAddress]:
    """Return where the selected experts are stored for the other stages of a split layer.

    The first part of a split feed-forward block selects the experts and sends the selection to the
    other parts. It follows the two residual streams in memory, so one transfer sends everything.

    Returns:
        Addresses of the expert ids and of the routing weights.
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
    """Return whether the first stage of a split layer sends its selected experts to the others.

    Otherwise, every stage of the layer selects the experts itself. Sending the selection requires
    the rewrite `sent_choice`, a single token, and stages with the same number of rows, because each
    row sends to the same row of the next stage.
    """
    rows = {(c.cuts[stage].rows, c.cuts[stage].hidden_group) for stage, _ in c.cuts_of_parts}
    one_token = c.tokens == 1 and not c.on_mesh
    return one_token and len(rows) == 1 and c.spec.layers[layer].experts and SENT_CHOICE in c.rewrites
