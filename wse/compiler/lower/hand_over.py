"""Hand-over from one stage to the next: a stream over the mesh, or across the link between wafers."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.lower.embedding import ID_BYTES, spread
from wse.compiler.state import SymAddress
from wse.number_formats import ELEMENT_BYTES
from wse.program.transfers.stage_streams import Crossing, HandOver
from wse_mappings.mesh.placement import Rect


def hand_over(c: Context, target: int, rects: tuple[Rect, ...]) -> None:
    """Move the residual stream from the current stage to stage ``target`` and go on there.

    Replicated along rows, one column sends and the receiving region multicasts along its rows, unless the regions are
    as wide and stand above each other on a wafer: then every column sends its own copy. On the mesh every PE sends its
    tile. Where the other region has more rows or fewer, the vector is cut anew on the way.
    """
    source = c.builder.stage
    payload = (c.chunk if c.on_mesh else c.tokens) * c.spec.hidden_size * ELEMENT_BYTES[c.options.activation_type]
    everyone = c.on_mesh or (_same_wafer(c, source, target) and rects[source][1::2] == rects[target][1::2])
    _stream(c, source, target, rects, payload, everyone=everyone)


def return_ids(c: Context, target: int) -> None:
    """Bring the next token ids from the head's stage to the embedding's, when they differ."""
    source = c.builder.stage
    at = c.next_ids()
    c.builder.stage = target
    received = c.next_ids()
    c.builder.stage = source
    leave = 0 if _same_wafer(c, source, target) else c.cut.cols - 1
    _move(c, source, target, at, received, c.tokens, c.tokens * ID_BYTES, leave=leave, enter=0, cols=1)
    c.builder.stage = target
    spread(c, received, c.tokens)


def _same_wafer(c: Context, a: int, b: int) -> bool:
    return c.plans[a].wafer == c.plans[b].wafer


def _stream(c: Context, source: int, target: int, rects: tuple[Rect, ...], payload: int, *, everyone: bool) -> None:
    cols, rows, elements = c.cut.cols, c.cut.rows, c.tokens * c.cut.hidden_per_pe
    at = c.stream
    c.enter_stage(target)
    received, target_elements = c.stream, c.tokens * c.cut.hidden_per_pe
    if c.cut.rows * c.cut.hidden_per_pe > c.spec.hidden_size and c.cut.rows != rows:  # what no piece fills
        c.builder.compute("clear", out=received, n=target_elements)
    c.builder.stage = source
    vectors = c.tokens if rows != c.cuts[target].rows else 0
    if everyone:
        _move(c, source, target, at, received, elements, payload, leave=0, enter=0, cols=cols, vectors=vectors)
        c.builder.stage = target
        return
    leave, enter = _nearest(rects[source], rects[target]) if _same_wafer(c, source, target) else (cols - 1, 0)
    _move(c, source, target, at, received, elements, payload, leave=leave, enter=enter, cols=1, vectors=vectors)
    c.builder.stage = target
    spread(c, received, target_elements, col=enter)


def _nearest(source: Rect, target: Rect) -> tuple[int, int]:
    """Columns of two regions between which words go: one that both have, near the middle of the target, or their
    sides that face each other."""
    low, high = max(source.col, target.col), min(source.col + source.cols, target.col + target.cols)
    if low < high:
        col = min(max(target.col + target.cols // 2, low), high - 1)
        return col - source.col, col - target.col
    return (source.cols - 1, 0) if target.col > source.col else (0, target.cols - 1)


def _move(
    c: Context,
    source: int,
    target: int,
    at: SymAddress,
    received: SymAddress,
    elements: int,
    payload: int,
    *,
    leave: int,
    enter: int,
    cols: int,
    vectors: int = 0,
) -> None:
    c.builder.transfer(
        HandOver if _same_wafer(c, source, target) else Crossing,
        at,
        target=received,
        elements=elements,
        target_stage=target,
        source_col=leave,
        target_col=enter,
        cols=cols,
        bytes=payload,
        vectors=vectors,
        extent=c.spec.hidden_size if vectors else 0,
        group=c.cuts[source].hidden_group if vectors else 0,
        target_group=c.cuts[target].hidden_group if vectors else 0,
    )
