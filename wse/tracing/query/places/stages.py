"""Stages of a trace: their rectangles of PEs, and the layers that they contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from wse.reports.result import Doc, Result
from wse_traces.reader.read import Array, Columns, Trace

RECTANGLE = ("row", "col", "rows", "cols")


@dataclass(frozen=True, kw_only=True)
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
        tuple[int, ...],
        Doc("first and last column that attention uses; empty if it has no attention"),
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
    """Return how many columns attention uses in the stages where it does not use all columns.

    The numbers are distinct and in ascending order.
    """
    widths = [(stage.attention[1] - stage.attention[0] + 1, stage.cols) for stage in stages if stage.attention]
    return sorted({attention_cols for attention_cols, stage_cols in widths if attention_cols < stage_cols})


def layers_of(stage: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the first and last layer of a stage, or an empty tuple if it has no layers."""
    first, last = int(stage["first_layer"]), int(stage["last_layer"])
    return (first, last) if first >= 0 else ()


def layers_text(first: int, last: int) -> str:
    """Return the layers of a stage as text. A negative first layer means that there are none.

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
