"""Hand-over from one stage to the next: a stream over the mesh, or across the link between wafers."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import NamedTuple

from wse.compiler.lowering.context import Context
from wse.compiler.lowering.embedding import ID_BYTES, spread
from wse.compiler.symbolic import SymAddress
from wse.number_formats import ELEMENT_BYTES, WORD_BYTES
from wse.program.steps import ROWS
from wse.program.transfers.stage_streams import Crossing, HandOver
from wse_mappings.cuts.split import ceil_div
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.multicast import shared_multicast


class _Columns(NamedTuple):
    """The columns that send and receive: the first one of each region, their number, and how many share the rows."""

    leave: int
    enter: int
    cols: int
    stride: int


def hand_over(c: Context, target: int, rects: tuple[Rect, ...]) -> None:
    """Send the residual stream from the current stage to stage ``target`` and continue there."""
    at, vectors = c.stream, c.tokens
    source = c.builder.stage
    c.enter_stage(target)
    received = c.stream
    c.builder.stage = source
    _hand(c, target, rects, at, received, vectors)


def hand_over_inside_block(c: Context, target: int, rects: tuple[Rect, ...], layer: int) -> None:
    """Send the residual stream and the input of a split block from one part of the block to the next.

    Both go at once, side by side, and behind them on every row the choice of experts, where that is sent.
    """
    source, at, choice = c.builder.stage, c.stream_before_block, 0
    c.builder.stage = target
    received = c.stream_before_block
    if c.sends_choice(layer):
        assert c.spec.experts is not None
        choice, received = 2 * c.tokens * c.spec.experts.active, replace(c.choice_of_parts[0], offset=0)
    c.builder.stage = source
    _hand(c, target, rects, at, received, 2 * c.tokens, choice)
    c.stream = c.stream_of_parts


def _hand(
    c: Context,
    target: int,
    rects: tuple[Rect, ...],
    at: SymAddress,
    received: SymAddress,
    vectors: int,
    further: int = 0,
) -> None:
    """Send hidden vectors from the current stage to stage ``target`` and continue there.

    1. On the mesh every PE sends its tile to its place.
    2. Else all columns hold the same. Of regions above each other on a wafer, the columns that both have share the rows
       among them, so that no column carries all. Of others one column sends.
    3. The receiving region multicasts along its rows.

    Where the other region has more rows or fewer, the vectors are cut anew on the way. ``further`` elements behind them
    are the same in all rows of both regions, which have as many.
    """
    source, cut, target_cut = c.builder.stage, c.cut, c.cuts[target]
    elements, received_elements = (vectors * one.hidden_per_pe + further for one in (cut, target_cut))
    whole_vectors = (c.chunk if c.on_mesh else c.tokens) * (vectors // c.tokens)
    payload_elements = whole_vectors * c.spec.hidden_size + cut.rows * further
    payload = payload_elements * ELEMENT_BYTES[c.options.activation_type]
    columns = _columns(c, target, rects, ceil_div(payload, WORD_BYTES))  # 1, 2
    anew = (target_cut.rows, target_cut.hidden_group) != (cut.rows, cut.hidden_group)
    c.builder.stage = target
    if anew and target_cut.rows * target_cut.hidden_per_pe > c.spec.hidden_size:  # what no piece fills
        c.builder.compute("clear", out=received, n=received_elements)
    c.builder.stage = source
    _move(c, source, target, at, received, elements, payload, columns, vectors=vectors if anew else 0)
    c.builder.stage = target
    if columns.cols == 1:  # 3
        spread(c, received, received_elements, col=columns.enter)
    elif columns.stride > 1 or columns.cols < target_cut.cols:
        pattern = c.patterns.get(
            shared_multicast, target_cut.cols, target_cut.rows, columns.enter, columns.cols, columns.stride
        )
        c.builder.line(pattern, ROWS, received, received_elements)


def _columns(c: Context, target: int, rects: tuple[Rect, ...], words: int) -> _Columns:
    """Return the columns that send and receive a vector of ``words`` words.

    With a stride s, columns carry words / s each and rows multicast over s columns: the sum is least for the root.
    """
    if c.on_mesh:
        return _Columns(0, 0, c.cut.cols, 1)
    if not _same_wafer(c, c.builder.stage, target):
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
    """Send the next token ids from the stage of the head to that of the embedding, if they differ."""
    source = c.builder.stage
    at = c.next_ids()
    c.builder.stage = target
    received = c.next_ids()
    c.builder.stage = source
    leave = 0 if _same_wafer(c, source, target) else c.cut.cols - 1
    _move(c, source, target, at, received, c.tokens, c.tokens * ID_BYTES, _Columns(leave, 0, 1, 1))
    c.builder.stage = target
    spread(c, received, c.tokens)


def _same_wafer(c: Context, a: int, b: int) -> bool:
    return c.plans[a].wafer == c.plans[b].wafer


def _move(
    c: Context,
    source: int,
    target: int,
    at: SymAddress,
    received: SymAddress,
    elements: int,
    payload: int,
    columns: _Columns,
    vectors: int = 0,
) -> None:
    c.builder.transfer(
        HandOver if _same_wafer(c, source, target) else Crossing,
        at,
        target=received,
        elements=elements,
        target_stage=target,
        source_col=columns.leave,
        target_col=columns.enter,
        cols=columns.cols,
        bytes=payload,
        vectors=vectors,
        extent=c.spec.hidden_size if vectors else 0,
        group=c.cuts[source].hidden_group if vectors else 0,
        target_group=c.cuts[target].hidden_group if vectors else 0,
        stride=columns.stride,
    )
