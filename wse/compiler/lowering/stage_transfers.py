"""Transfers from one stage to the next: over the mesh, or across the link between wafers."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import NamedTuple

from wse.compiler.lowering.embedding import ID_BYTES, multicast_along_rows
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.split_block import choice_of_parts, sends_choice, stream_before_block, stream_of_parts
from wse.compiler.symbolic import SymAddress
from wse.models.op import Op
from wse.number_formats import ELEMENT_BYTES, WORD_BYTES
from wse.program.steps import ROWS
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse_mappings.cuts.layer_parts import BLOCK
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.multicast import shared_multicast
from wse_mappings.rounding import ceil_div


class _Columns(NamedTuple):
    """Columns of PEs that send hidden vectors to another region, and columns that receive them.

    Attributes:
        source_col: First sending column, counted from the first column of the source region.
        target_col: First receiving column, counted from the first column of the target region.
        cols: Number of columns.
        stride: Size of the groups of neighbouring columns that share the work: only one column of a
            group sends each row. 1 if every sending column sends all rows.
    """

    source_col: int
    target_col: int
    cols: int
    stride: int


def transfer_to_stage(c: Context, target: int, rects: tuple[Rect, ...]) -> None:
    """Add the steps that send the residual stream to another stage; later steps run there.

    Args:
        c: Context of the phase being lowered.
        target: Index of the other stage.
        rects: Rectangle of PEs of each stage.
    """
    source_address, vectors = c.stream, c.tokens
    source = c.builder.stage
    c.enter_stage(target)
    target_address = c.stream
    c.builder.stage = source
    _send_vectors(c, target, rects, source_address, target_address, vectors)


def transfer_inside_layer(c: Context, target: int, rects: tuple[Rect, ...], op: Op) -> None:
    """Send the residual stream to the stage with the next part of the same layer.

    The parts of the layer read the same input, so the input is sent in the same transfer. If the
    first stage of a split block sends its expert selection, the transfer also contains the
    selection, once per row.

    Args:
        c: Context of the phase being lowered.
        target: Index of the stage with the next part of the layer.
        rects: Rectangle of PEs of each stage.
        op: First op on that stage.
    """
    source, source_address, choice = c.builder.stage, stream_before_block(c), 0
    c.builder.stage = target
    target_address = stream_before_block(c)
    if op.parts.first > BLOCK.first and sends_choice(c, op.layer):
        assert c.spec.experts is not None
        choice, target_address = 2 * c.tokens * c.spec.experts.active, replace(choice_of_parts(c)[0], offset=0)
    c.builder.stage = source
    _send_vectors(c, target, rects, source_address, target_address, 2 * c.tokens, choice)
    c.stream = stream_of_parts(c)


def _send_vectors(
    c: Context,
    target: int,
    rects: tuple[Rect, ...],
    source_address: SymAddress,
    target_address: SymAddress,
    vectors: int,
    choice_elements: int = 0,
) -> None:
    """Send hidden vectors from the current stage to another stage, and continue there.

    1. Choose the columns that send. With tokens on the mesh, every PE sends its tile to the
       corresponding PE. Otherwise all columns have the same vectors: if the regions are above each
       other, their common columns divide the rows between them; if not, one column sends.
    2. Send the vectors. If the regions divide the hidden vector differently, it is redistributed
       during the transfer, after clearing the padding of the target.
    3. Multicast along the rows of the target region, if not all of its columns have received the
       vectors.

    Args:
        c: Context of the phase being lowered.
        target: Index of the other stage.
        rects: Rectangle of each stage.
        source_address: Vectors on the current stage.
        target_address: Vectors on the other stage.
        vectors: Number of hidden vectors.
        choice_elements: Number of elements after the vectors that are the same in all rows. If not
            0, both regions have the same number of rows.
    """
    source, cut, target_cut = c.builder.stage, c.cut, c.cuts[target]
    elements, received_elements = (
        vectors * region_cut.hidden_per_pe + choice_elements for region_cut in (cut, target_cut)
    )
    whole_vectors = (c.chunk if c.on_mesh else c.tokens) * (vectors // c.tokens)
    payload_elements = whole_vectors * c.spec.hidden_size + cut.rows * choice_elements
    payload = payload_elements * ELEMENT_BYTES[c.options.activation_type]
    columns = _columns(c, target, rects, ceil_div(payload, WORD_BYTES))  # 1
    # 2. Send.
    is_divided_again = (target_cut.rows, target_cut.hidden_group) != (cut.rows, cut.hidden_group)
    c.builder.stage = target
    if is_divided_again and target_cut.rows * target_cut.hidden_per_pe > c.spec.hidden_size:  # clear the padding
        c.builder.compute("clear", out=target_address, n=received_elements)
    c.builder.stage = source
    _add_transfer(
        c,
        target,
        source_address,
        target_address,
        elements,
        payload,
        columns,
        vectors=vectors if is_divided_again else 0,
    )
    c.builder.stage = target
    if columns.cols == 1:  # 3
        multicast_along_rows(c, target_address, received_elements, col=columns.target_col)
    elif columns.stride > 1 or columns.cols < target_cut.cols:
        pattern = c.patterns.get(
            shared_multicast, target_cut.cols, target_cut.rows, columns.target_col, columns.cols, columns.stride
        )
        c.builder.line(pattern, ROWS, target_address, received_elements)


def _columns(c: Context, target: int, rects: tuple[Rect, ...], words: int) -> _Columns:
    """Choose the columns of PEs that send hidden vectors to another stage, and that receive them.

    If the regions share columns of the mesh, groups of s neighbouring columns divide the rows among
    themselves. Each column then sends words / s words, and afterwards every row is multicast over s
    columns. The total time is shortest for s = sqrt(words).

    Args:
        c: Context of the phase being lowered, on the source stage.
        target: Index of the target stage.
        rects: Rectangle of PEs of each stage.
        words: Total number of words in all rows.
    """
    if c.on_mesh:
        return _Columns(0, 0, c.cut.cols, 1)
    if not _is_on_same_wafer(c, target):
        return _Columns(c.cut.cols - 1, 0, 1, 1)
    source_rect, target_rect = rects[c.builder.stage], rects[target]
    low = max(source_rect.col, target_rect.col)
    cols = min(source_rect.col + source_rect.cols, target_rect.col + target_rect.cols) - low
    if cols > 0:
        stride = min(cols, target_rect.rows, max(1, isqrt(words)))
        return _Columns(low - source_rect.col, low - target_rect.col, cols, stride)
    eastward = target_rect.col > source_rect.col
    return _Columns(source_rect.cols - 1 if eastward else 0, 0 if eastward else target_rect.cols - 1, 1, 1)


def return_ids(c: Context, target: int) -> None:
    """Send the next token ids from the output head's stage to the embedding's stage.

    The next pass reads the ids there. After the transfer, the ids are multicast along all rows.
    """
    source = c.builder.stage
    source_address = c.next_ids()
    c.builder.stage = target
    target_address = c.next_ids()
    c.builder.stage = source
    source_col = 0 if _is_on_same_wafer(c, target) else c.cut.cols - 1
    columns = _Columns(source_col, 0, 1, 1)
    _add_transfer(c, target, source_address, target_address, c.tokens, c.tokens * ID_BYTES, columns)
    c.builder.stage = target
    multicast_along_rows(c, target_address, c.tokens)


def _is_on_same_wafer(c: Context, stage: int) -> bool:
    """Return whether a stage is on the same wafer as the current stage."""
    return c.plans[stage].wafer == c.plans[c.builder.stage].wafer


def _add_transfer(
    c: Context,
    target: int,
    source_address: SymAddress,
    target_address: SymAddress,
    elements: int,
    payload: int,
    columns: _Columns,
    vectors: int = 0,
) -> None:
    """Add a transfer from the current stage to another, over the mesh or between wafers.

    Args:
        c: Context of the phase being lowered.
        target: Index of the other stage.
        source_address, target_address: Addresses of the elements on the two stages.
        elements: Elements per PE.
        payload: Total bytes of all PEs, without padding.
        columns: Columns that send and receive.
        vectors: Number of hidden vectors sent. They are redistributed if the two regions divide
            them differently over their rows. 0 to send elements as they are.
    """
    c.builder.transfer(
        StageTransfer if _is_on_same_wafer(c, target) else Crossing,
        source_address,
        target=target_address,
        elements=elements,
        target_stage=target,
        source_col=columns.source_col,
        target_col=columns.target_col,
        cols=columns.cols,
        bytes=payload,
        vectors=vectors,
        extent=c.spec.hidden_size if vectors else 0,
        group=c.cuts[c.builder.stage].hidden_group if vectors else 0,
        target_group=c.cuts[target].hidden_group if vectors else 0,
        stride=columns.stride,
    )
