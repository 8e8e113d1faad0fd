"""A feed-forward block that is split between stages: what its parts send to each other.

The stages of the parts keep the residual stream in one buffer with the block's input and, if the
first part sends it, the expert selection. A single transfer can then send everything.
"""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import SENT_CHOICE
from wse.compiler.symbolic import SymAddress


def stream_before_block(c: Context) -> SymAddress:
    """Return the address of the residual stream before a feed-forward block that is split.

    The parts of the block are on different stages, and all of them read this stream. The stream to
    which the parts add their results follows it in the same buffer, so that both can be sent in one
    transfer. If the first part also sends its selection of experts, the stream at this address is
    already normalised.
    """
    return SymAddress(buffer=c.temp("streams", 2 * c.tokens * c.cut.hidden_per_pe, "act"))


def stream_of_parts(c: Context) -> SymAddress:
    """Return the address of the residual stream to which the parts of a split block add.

    A feed-forward block may be split into parts on several stages. The stream is sent from stage to
    stage, and each part adds its output.
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
    """Copy the residual stream back to its usual buffer after a split feed-forward block.

    The parts of the block are on different stages. Until the last part, the stream is stored in a
    buffer that also contains the block's input.
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
