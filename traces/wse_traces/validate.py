"""List all that is wrong with a trace: the description of every dataset, then what its values say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wse_traces import schema
from wse_traces.check import checked_dataset, header_problems
from wse_traces.errors import TraceError
from wse_traces.layers import layer_link_words
from wse_traces.open_file import open_file
from wse_traces.read import LIMIT_BYTES, Array, Columns, Trace, open_trace
from wse_traces.schema import FIELDS, RAGGED, TABLES, Field

_RECTANGLES = ("stage", "route", "step")


def problems(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> list[str]:
    """All deviations of a file from the schema, each one line with the path inside the file; [] if none.

    >>> problems("traces/golden/v1/story.h5")
    []
    """
    try:
        with open_trace(path, limit_bytes=limit_bytes) as trace:
            return list(_problems(trace))
    except TraceError as error:
        return [str(error), *_header_lines(Path(path))]


def _header_lines(path: Path) -> list[str]:
    """All problems of a header that stopped the reader at its first."""
    try:
        with open_file(path) as file:
            return header_problems(file)[1]
    except TraceError:
        return []


def _problems(trace: Trace) -> Iterator[str]:
    broken = set()
    for field in FIELDS:
        rows = trace.rows(field.table)
        _, found = checked_dataset(trace.file, field, trace.header, rows, complete=trace.complete)
        if found:
            broken.add(field.table)
            yield from found
    for table, fields in TABLES.items():
        if table in broken:
            continue
        rows = trace.rows(table)
        try:
            if fields[0].axes[0] == "wafer":
                if rows not in (0, trace.header.wafers):
                    yield f"{table}: {rows} wafers, needed: 0 or {trace.header.wafers}"
                    continue
            else:
                trace.check_size(table, fields, rows)
            if "row" in fields[0].axes:
                yield from _plane_problems(trace, fields[0])
            columns = {f.name: trace.column(f.path) for f in fields if "row" not in f.axes}
        except TraceError as error:
            yield str(error).removeprefix(f"{trace.path}: ")
            continue
        for field in fields:
            if field.name in columns:
                yield from _value_problems(trace, field, columns[field.name])
        if table in _RECTANGLES:
            yield from _rectangle_problems(trace, table, columns)
        if table in _MEANING:
            yield from _MEANING[table](trace, columns)
    for table, ends, sliced in RAGGED:
        if table not in broken:
            yield from _ragged_problems(trace, ends, sliced)
    if "summary_byte" not in broken:
        yield from _report_problems(trace)


def _plane_problems(trace: Trace, field: Field) -> Iterator[str]:
    for index in range(trace.rows(field.table)):
        plane = trace.column(field.path, index, index + 1)
        if plane.min(initial=0) < 0 and not field.signed:
            yield f"{field.path}[{index}]: a negative value, {plane.min()}"


def _report_problems(trace: Trace) -> Iterator[str]:
    try:
        trace.report()
    except TraceError as error:
        yield str(error).removeprefix(f"{trace.path}: ")


def _first(wrong: Any) -> int:
    return int(np.flatnonzero(wrong)[0])


def _value_problems(trace: Trace, field: Field, values: Array) -> Iterator[str]:
    if field.refers:
        bound = trace.header.wafers if field.refers == "wafer" else trace.rows(field.refers)
        wrong = (values < schema.NONE) | (values >= bound)
        what = f"an index into {bound} rows of {field.refers!r}"
    elif field.labels:
        wrong, what = values >= len(field.labels), f"a code of {', '.join(field.labels)}"
    elif values.dtype.kind == "f":
        wrong, what = ~(np.isfinite(values) & (values >= 0)), "a number of at least 0"
    elif values.dtype.kind == "i" and not field.signed:
        wrong, what = values < schema.NONE, "at least -1"
    else:
        return
    if wrong.any():
        row = _first(wrong.reshape(len(values), -1).any(axis=1))
        yield f"{field.path}[{row}]: {values[row]}, needed: {what} ({int(wrong.sum())} such)"


def _rectangle_problems(trace: Trace, table: str, columns: Columns) -> Iterator[str]:
    ends = (("row", "rows", trace.header.rows), ("col", "cols", trace.header.cols))
    group = next(f.path.rsplit("/", 1)[0] for f in TABLES[table] if f.name == "rows")
    for start, size, length in ends:
        first, count = columns[start].astype("<i8"), columns[size]
        wrong = (first < 0) | (count < 0) | (first + count > length)
        if wrong.any():
            row = _first(wrong)
            yield f"{group}/{start}[{row}]: {count[row]} {size} from {first[row]} leave the mesh of {length}"


def _step_problems(_: Trace, columns: Columns) -> Iterator[str]:
    wrong = columns["cycles_by"].sum(axis=1) != columns["cycles"]
    if wrong.any():
        row = _first(wrong)
        total = columns["cycles_by"][row].sum()
        yield f"steps/cycles_by[{row}]: the causes add up to {total}, cycles are {columns['cycles'][row]}"


def _schedule_problems(trace: Trace, columns: Columns) -> Iterator[str]:
    first, count = columns["first_step"], columns["steps"]
    wrong = (first < 0) | (count < 0) | (first + count > trace.rows("step"))
    if wrong.any():
        row = _first(wrong)
        yield f"schedules/first_step[{row}]: {count[row]} steps from {first[row]} of {trace.rows('step')}"


def _stage_problems(_: Trace, columns: Columns) -> Iterator[str]:
    totals = columns["stage_bytes"].sum(axis=1)
    if len(set(totals.tolist())) > 1:
        sums = f"{totals.min()} to {totals.max()} B"
        yield f"sram/stage_bytes: the uses add up to {sums}, needed: the same for all stages"


def _ragged_problems(trace: Trace, ends: str, sliced: str) -> Iterator[str]:
    try:
        stops = trace.column(ends)
    except TraceError:
        return  # told above
    wrong = np.diff(stops, prepend=0) < 0
    if wrong.any():
        yield f"{ends}[{_first(wrong)}]: before the end of the row above"
    if len(stops) and stops[-1] > trace.rows(sliced):
        limit = f"the {trace.rows(sliced)} rows of {sliced!r}"
        yield f"{ends}[{len(stops) - 1}]: {stops[-1]}, needed: at most {limit}"


def _wavelet_problems(trace: Trace, columns: Columns) -> Iterator[str]:
    edges = {"row": ("north", "south", trace.header.rows), "col": ("west", "east", trace.header.cols)}
    for name, (*sides, length) in edges.items():
        low, high = (schema.MOVES.index(str(side)) for side in sides)
        place, direction = columns[name], columns["direction"]
        wrong = (place < 0) | (place >= length)
        wrong |= (place == 0) & (direction == low) | (place == length - 1) & (direction == high)
        if wrong.any():
            row = _first(wrong)
            yield f"wavelets/{name}[{row}]: it leaves the mesh of {length} from {place[row]}"
    link = np.stack([columns[name] for name in ("pass", "cycle", "wafer", "row", "col", "direction")], axis=1)
    _, first, times = np.unique(link, axis=0, return_index=True, return_counts=True)
    if (times > 1).any():
        row = first[_first(times > 1)]
        yield f"wavelets/cycle[{row}]: {times.max()} wavelets on one link in cycle {columns['cycle'][row]}"


def _pattern_problems(trace: Trace, columns: Columns) -> Iterator[str]:
    ends = (("rows", trace.header.rows), ("cols", trace.header.cols))
    for name, length in ends:
        wrong = (columns[name] < 0) | (columns[name] > length)
        if wrong.any():
            row = _first(wrong)
            yield f"links/patterns/{name}[{row}]: {columns[name][row]}, needed: 0 to the {length} of the mesh"
    for row in range(trace.rows("pattern")):
        words = trace.column("links/patterns/words", row, row + 1)[0]
        rows, cols = (max(int(columns[name][row]), 0) for name, _ in ends)
        if words[:, rows:].any() or words[:, :, cols:].any():
            yield f"links/patterns/words[{row}]: words beyond its {rows}x{cols} PEs, needed: 0 there"


def _placed_problems(trace: Trace, columns: Columns) -> Iterator[str]:
    try:
        sizes = [trace.column(f"links/patterns/{name}") for name in ("rows", "cols")]
    except TraceError:
        return  # told above
    for name in ("wafer", "pattern"):
        wrong = columns[name] < 0
        if wrong.any():
            row = _first(wrong)
            yield f"links/layers/{name}[{row}]: {columns[name][row]}, needed: at least 0"
    if min(columns["pattern"].min(initial=0), columns["wafer"].min(initial=0)) < 0:
        return
    if columns["pattern"].max(initial=-1) >= len(sizes[0]) or columns["wafer"].max(initial=-1) >= trace.header.wafers:
        return  # told above
    place = np.stack([columns["layer"], columns["wafer"]], axis=1)
    _, first, times = np.unique(place, axis=0, return_index=True, return_counts=True)
    if (times > 1).any():
        row = first[_first(times > 1)]
        layer, wafer = place[row]
        yield f"links/layers/layer[{row}]: layer {layer} is on wafer {wafer} {times.max()} times, needed: once"
    leaves = False
    for name, size, length in zip(("row", "col"), sizes, (trace.header.rows, trace.header.cols), strict=True):
        start, count = columns[name].astype("<i8"), size[columns["pattern"]]
        wrong = (start < 0) | (start + count > length)
        if wrong.any():
            row, leaves = _first(wrong), True
            yield f"links/layers/{name}[{row}]: {count[row]} {name}s from {start[row]} leave the mesh of {length}"
    if not leaves:
        yield from _sum_problems(trace)


def _sum_problems(trace: Trace) -> Iterator[str]:
    """Whether the layers of a run that ended add up to its words on links."""
    wafers = trace.rows("links/words")
    if not trace.complete or not trace.rows("placed_layer"):
        return
    try:
        for wafer in range(wafers):
            wrong = layer_link_words(trace, wafer=wafer) != trace.column("links/words", wafer, wafer + 1)[0]
            if wrong.any():
                yield f"links/words[{wafer}]: not the sum of the layers' words on {int(wrong.sum())} links"
    except TraceError:
        return  # told above


_MEANING: dict[str, Callable[[Trace, Columns], Iterator[str]]] = {
    "step": _step_problems,
    "schedule": _schedule_problems,
    "stage": _stage_problems,
    "wavelet": _wavelet_problems,
    "pattern": _pattern_problems,
    "placed_layer": _placed_problems,
}
