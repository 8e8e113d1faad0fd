"""List all that is wrong with a trace: the description of every dataset, each value, then whether they agree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from wse_traces import schema, validate_links, validate_place, validate_time
from wse_traces.check import header_problems
from wse_traces.errors import TraceError
from wse_traces.open_file import open_file
from wse_traces.read import LIMIT_BYTES, Array, Columns, Trace, open_trace
from wse_traces.schema import FIELDS, RAGGED, TABLES, Field
from wse_traces.validate_time import first_row

_RECTANGLES = ("stage", "route", "step")
_PLANES_LIMITS = 16  # how many times the limit of one read all planes of a dataset may take, one after the other

# Checks of several tables: each function reads those before it, of which nothing is wrong so far.
_AGREEMENT: Final[tuple[tuple[tuple[str, ...], Callable[[Trace], Iterator[str]]], ...]] = (
    (("op",), validate_place.op_problems),
    (("edge",), validate_place.edge_problems),
    (("stage",), validate_place.stage_problems),
    (("stage", "attention"), validate_place.attention_problems),
    (("stage", "sram/bytes_per_pe"), validate_place.sram_problems),
    (("stage", "buffer"), validate_place.buffer_problems),
    (("buffer", "live"), validate_place.live_problems),
    (("buffer", "content", "content_byte"), validate_place.content_problems),
    (("step",), validate_time.step_problems),
    (("step", "schedule"), validate_time.schedule_problems),
    (("schedule", "pass", "shift"), validate_time.shift_problems),
    (("schedule", "pass", "token"), validate_time.token_problems),
    (("tensor",), validate_place.tensor_problems),
    *(((table, sliced), partial(validate_place.ragged_problems, ends=ends)) for table, ends, sliced in RAGGED),
    (("crossing",), validate_links.crossing_problems),
    (("wavelet",), validate_links.wavelet_problems),
    (("pattern",), validate_links.pattern_problems),
    (("pattern", "placed_layer", "links/words"), validate_links.placed_problems),
    (("step", "schedule", "pass", "shift", "links/words"), validate_links.hop_problems),
    (("routed", "expert_load"), validate_links.expert_problems),
)


def problems(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> list[str]:
    """Return all deviations of a file from the schema, one line each with the path in the file; [] if it is valid.

    Whether columns agree is judged where each alone is sound.

    >>> problems("traces/golden/v1/story.h5")
    []
    """
    try:
        with open_trace(path, limit_bytes=limit_bytes) as trace:
            return list(_problems(trace))
    except TraceError as error:
        first = str(error)
        return [first, *(line for line in _header_lines(Path(path)) if line.removeprefix("/: ") not in first)]


def _header_lines(path: Path) -> list[str]:
    """Return all problems of a header that the reader refuses at its first problem."""
    try:
        with open_file(path) as file:
            return header_problems(file)[1]
    except TraceError:
        return []


def _problems(trace: Trace) -> Iterator[str]:
    broken = set()
    for field in FIELDS:
        deviations = trace.deviations(field.path)
        if deviations:
            broken.add(field.table)
            yield from deviations
    for table in TABLES:
        if table in broken:
            continue
        for problem in _table_problems(trace, table):
            broken.add(table)
            yield problem
    for tables, check in _AGREEMENT:
        if not broken.intersection(tables):
            yield from _run_check(trace, partial(check, trace))
    if "summary_byte" not in broken:
        yield from _report_problems(trace)


def _run_check(trace: Trace, check: Callable[[], Iterator[str]]) -> Iterator[str]:
    """Yield the problems that a check finds, or the one that prevents the check."""
    try:
        yield from check()
    except TraceError as error:
        yield str(error).removeprefix(f"{trace.path}: ")


def _report_problems(trace: Trace) -> Iterator[str]:
    try:
        trace.report()
    except TraceError as error:
        yield str(error).removeprefix(f"{trace.path}: ")


def _table_problems(trace: Trace, table: str) -> Iterator[str]:
    """Return the problems of the values of each column of a table."""
    fields, rows = TABLES[table], trace.rows(table)
    if fields[0].axes[0] == "wafer" and rows not in (0, trace.header.wafers):
        yield f"{table}: {rows} wafers, needed: 0 or {trace.header.wafers}"
        return
    flat = tuple(field for field in fields if "row" not in field.axes)
    try:
        trace.check_size(table, flat, rows)
        for field in fields:
            if field not in flat:
                trace.check_size(field.path, (field,), -(-rows // _PLANES_LIMITS))
    except TraceError as error:
        yield str(error).removeprefix(f"{trace.path}: ")
        return
    columns: Columns = {}
    for field in fields:
        yield from _run_check(trace, partial(_column_problems, trace, field, columns))
    if table in _RECTANGLES and len(columns) == len(flat):
        yield from _rectangle_problems(trace, table, columns)


def _column_problems(trace: Trace, field: Field, columns: Columns) -> Iterator[str]:
    """Return the problems of the values of one column, and keep the column unless it is a plane."""
    if "row" in field.axes:
        yield from _plane_problems(trace, field)
        return
    columns[field.name] = trace.column(field.path)
    yield from _value_problems(trace, field, columns[field.name])


def _plane_problems(trace: Trace, field: Field) -> Iterator[str]:
    for index in range(trace.rows(field.table)):
        plane = trace.column(field.path, index, index + 1)
        if plane.min(initial=0) < 0 and not field.signed:
            yield f"{field.path}[{index}]: a negative value, {plane.min()}"


def _value_problems(trace: Trace, field: Field, values: Array) -> Iterator[str]:
    least = schema.NONE if str(schema.NONE) in field.doc else 0
    if field.refers:
        bound = trace.header.wafers if field.refers == "wafer" else trace.rows(field.refers)
        wrong = (values < least) | (values >= bound)
        what = f"an index into {bound} rows of {field.refers!r}"
    elif field.labels:
        wrong, what = values >= len(field.labels), f"a code of {', '.join(field.labels)}"
    elif values.dtype.kind == "f":
        wrong, what = ~(np.isfinite(values) & (values >= 0)), "a number of at least 0"
    elif values.dtype.kind == "i" and not field.signed:
        wrong, what = values < least, f"at least {least}"
    elif values.dtype.kind == "S":
        wrong, what = np.array([not _is_text(value) for value in values], bool), "UTF-8"
    else:
        return
    for row in first_row(wrong.any(axis=tuple(range(1, wrong.ndim)))):
        yield f"{field.path}[{row}]: {values[row]}, needed: {what} ({int(wrong.sum())} such)"


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _rectangle_problems(trace: Trace, table: str, columns: Columns) -> Iterator[str]:
    ends = (("row", "rows", trace.header.rows), ("col", "cols", trace.header.cols))
    group = next(f.path.rsplit("/", 1)[0] for f in TABLES[table] if f.name == "rows")
    for start, size, length in ends:
        begin, count = columns[start].astype("<i8"), columns[size]
        wrong = (begin < 0) | (count < 0) | (begin + count > length)
        for row in first_row(wrong):
            yield f"{group}/{start}[{row}]: {count[row]} {size} from {begin[row]} leave the mesh of {length}"
