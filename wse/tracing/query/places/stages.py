"""Stages of a trace as rectangles of PEs with layers, and maps of every PE of a wafer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from wse.reports.result import Doc, Result
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import DIRECTIONS, USES

RECTANGLE = ("row", "col", "rows", "cols")


class Stage(Result):
    """Stage of a trace: some layers, and the rectangle of PEs on one wafer that stores them.

    A stage that spans several wafers is listed once for each wafer.
    """

    wafer: Annotated[int, Doc("index of the wafer")]
    row: Annotated[int, Doc("first row of its rectangle of PEs")]
    col: Annotated[int, Doc("first column of the rectangle")]
    rows: Annotated[int, Doc("number of rows")]
    cols: Annotated[int, Doc("number of columns")]
    layers: Annotated[tuple[int, ...], Doc("first and last layer; empty if it has no layers")]
    attention: Annotated[
        tuple[int, ...], Doc("first and last column that attention uses; empty if it has no attention")
    ]
    first_layer: Annotated[int, Doc("deprecated: the first of `layers`, -1: none")]
    last_layer: Annotated[int, Doc("deprecated: the last of `layers`, -1: none")]


def read_stages(trace: Trace) -> list[Stage]:
    """Return all stages of a trace in index order."""
    columns = {row["stage"]: (row["col"], row["col"] + row["cols"] - 1) for row in trace.records("attention")}
    return [
        Stage.from_record(record, layers=layers_of(record), attention=columns.get(index, ()))
        for index, record in enumerate(trace.records("stage"))
    ]


def used_fraction(uses: Mapping[str, int]) -> float:
    """Return the fraction of a PE's SRAM that is in use.

    The fraction exceeds 1 in an estimate of a model that does not fit, because the free bytes are
    then negative.

    Args:
        uses: Number of bytes for each use, including "free".
    """
    size = sum(uses.values())
    return (size - uses["free"]) / size if size else 0.0


def narrow_attention(stages: Sequence[Stage]) -> list[int]:
    """List the numbers of PE columns that compute attention, if a stage does not use all columns.

    Stages that use all of their columns are skipped. Each number is listed once, in ascending
    order.
    """
    widths = [(stage.attention[1] - stage.attention[0] + 1, stage.cols) for stage in stages if stage.attention]
    return sorted({attention_cols for attention_cols, stage_cols in widths if attention_cols < stage_cols})


def layers_of(stage: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the first and last layer of a stage, or an empty tuple if it has no layers."""
    first, last = int(stage["first_layer"]), int(stage["last_layer"])
    return (first, last) if first >= 0 else ()


def layers_text(first: int, last: int) -> str:
    """Format the layers of a stage. A negative first layer means that there are none.

    >>> layers_text(-1, -1), layers_text(2, 2), layers_text(0, 4)
    ('no layer', 'layer 2', 'layers 0 to 4')
    """
    return "no layer" if first < 0 else f"layer {first}" if first == last else f"layers {first} to {last}"


def covers(rectangles: Columns, row: int, col: int) -> Array:
    """Return whether each rectangle in a table contains a PE.

    Args:
        rectangles: Columns with the ``row``, ``col``, ``rows`` and ``cols`` of each rectangle.
        row: Row of the PE.
        col: Column of the PE.

    Returns:
        bool ``[rectangle]``.
    """
    first_row, first_col, rows, cols = (rectangles[name].astype(np.int64) for name in RECTANGLE)
    is_covered: Array = (first_row <= row) & (row - first_row < rows) & (first_col <= col) & (col - first_col < cols)
    return is_covered


def mesh_of(trace: Trace) -> tuple[int, int]:
    """Return the number of rows and columns of the mesh that programs see.

    The mesh is smaller than the physical wafer if PEs are dead.
    """
    mesh = trace.header.options.get("mesh") if "defects" in trace.header.options else None
    if isinstance(mesh, list) and len(mesh) == 2 and all(isinstance(size, int) and size > 0 for size in mesh):
        return min(mesh[0], trace.header.rows), min(mesh[1], trace.header.cols)
    return trace.header.rows, trace.header.cols


def sram_bytes(trace: Trace, wafer: int) -> dict[str, Array]:
    """Return how many bytes of SRAM each PE of a wafer needs for each use, such as "weights".

    Returns:
        An array ``[row, col]`` for each use, with the name of the use as the key. The use ``free``
        is included. Empty if the bytes were not recorded.
    """
    return _planes(trace, "sram/bytes_per_pe", wafer, USES)


def busy_cycles(trace: Trace, wafer: int) -> Array | None:
    """Return the number of cycles over the run in which each PE computes, ``[row, col]``.

    The result is None if busy cycles were not recorded.
    """
    path = "pe/busy_cycles"
    return trace.column(path, wafer, wafer + 1)[0] if wafer < trace.rows(path) else None


def link_words(trace: Trace, wafer: int) -> dict[str, Array]:
    """Return the number of words that leave each PE of a wafer in each direction over the run.

    Returns:
        An array ``[row, col]`` for each direction, with the name of the direction as the key. Empty
        if words were not recorded.
    """
    return _planes(trace, "links/words", wafer, DIRECTIONS)


def _planes(trace: Trace, path: str, wafer: int, names: tuple[str, ...]) -> dict[str, Array]:
    """Read the maps of one wafer in a dataset, such as its words on links in each direction.

    Args:
        trace: An open trace.
        path: Path of the dataset.
        wafer: Index of the wafer.
        names: Names of the maps in the dataset.

    Returns:
        Arrays ``[row, col]``, with the names of the maps as keys; empty if the wafer was not
        recorded.
    """
    if wafer >= trace.rows(path):
        return {}
    return dict(zip(names, trace.column(path, wafer, wafer + 1)[0], strict=True))
