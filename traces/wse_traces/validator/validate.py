"""Validate a trace: the description of each dataset, each value, and their consistency."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.field import Field
from wse_traces.reader.check import header_problems
from wse_traces.reader.open_file import open_file
from wse_traces.reader.read import LIMIT_BYTES, Array, Columns, Trace, open_trace
from wse_traces.schema import FIELDS, RAGGED, TABLES
from wse_traces.validator import places as validate_place
from wse_traces.validator import times as validate_time
from wse_traces.validator.times import first_row

_RECTANGLES = ("stage", "route", "step")
_PLANES_LIMITS = 16  # maximum size of all planes of a dataset, as a multiple of the limit of one read

# Checks across tables. A check runs only if no problem was found in the tables that it needs.
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
    (("crossing",), validate_time.crossing_problems),
    (("wavelet",), validate_time.wavelet_problems),
    (("pattern",), validate_time.pattern_problems),
    (("pattern", "placed_layer", "links/words"), validate_time.placed_problems),
    (("step", "schedule", "pass", "shift", "links/words"), validate_time.hop_problems),
    (("routed", "expert_load"), validate_time.expert_problems),
)


def problems(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> list[str]:
    """Return a message for each deviation of a trace file from the schema, or [] if it is valid.

    Each message starts with the path inside the file. Consistency between columns is checked only
    for columns that are individually valid.

    Args:
        path: Path of the trace.
        limit_bytes: Maximum memory that a single read may allocate.

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
    """Return all problems in a file's header. The reader itself reports only the first."""
    try:
        with open_file(path) as file:
            return header_problems(file)[1]
    except TraceError:
        return []


def _problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each problem in an open trace.

    1. Check the description of each dataset.
    2. Check the values in tables whose descriptions are correct.
    3. Check the consistency of tables in which no problem has been found so far.
    """
    broken = set()
    # 1. Descriptions
    for field in FIELDS:
        deviations = trace.deviations(field.path)
        if deviations:
            broken.add(field.table)
            yield from deviations
    # 2. Values
    for table in TABLES:
        if table in broken:
            continue
        for problem in _table_problems(trace, table):
            broken.add(table)
            yield problem
    # 3. Consistency
    for tables, check in _AGREEMENT:
        if not broken.intersection(tables):
            yield from _run_check(trace, partial(check, trace))
    if "summary_byte" not in broken:
        yield from _run_check(trace, partial(_report_problems, trace))


def _run_check(trace: Trace, check: Callable[[], Iterator[str]]) -> Iterator[str]:
    """Yield the problems that a check finds, or the error that prevents the check.

    Args:
        trace: An open trace.
        check: Function that yields a message for each problem.
    """
    try:
        yield from check()
    except TraceError as error:
        yield str(error).removeprefix(f"{trace.path}: ")


def _report_problems(trace: Trace) -> Iterator[str]:
    """Yield nothing, but raise TraceError if the report of the run cannot be read."""
    trace.report()
    yield from ()


def _table_problems(trace: Trace, table: str) -> Iterator[str]:
    """Yield a message for each problem with the values in a table."""
    fields, rows = TABLES[table], trace.rows(table)
    if fields[0].axes[0] == "wafer" and rows not in (0, trace.header.wafers):
        yield f"{table}: {rows} wafers, needed: 0 or {trace.header.wafers}"
        return
    flat = tuple(field for field in fields if not field.is_plane)
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
    """Yield a message for each problem with the values in one column.

    Args:
        trace: An open trace.
        field: Field that describes the column.
        columns: Dictionary to which the values of the column are added. The values of a plane, a
            dataset with values for every PE, are not added.
    """
    if field.is_plane:
        for index in range(trace.rows(field.table)):
            plane = trace.column(field.path, index, index + 1)
            if plane.min(initial=0) < 0 and not field.signed:
                yield f"{field.path}[{index}]: a negative value, {plane.min()}"
        return
    columns[field.name] = trace.column(field.path)
    yield from _value_problems(trace, field, columns[field.name])


def _value_problems(trace: Trace, field: Field, values: Array) -> Iterator[str]:
    """Yield a message for the first invalid value of a column.

    Values must be valid indices, codes, numbers or strings, depending on the field.

    Args:
        trace: An open trace.
        field: Field that describes the column.
        values: Values of the column.
    """
    minimum = schema.NONE if str(schema.NONE) in field.doc else 0  # descriptions say what -1 means
    if field.refers:
        bound = trace.header.wafers if field.refers == "wafer" else trace.rows(field.refers)
        is_invalid = (values < minimum) | (values >= bound)
        requirement = f"an index into {bound} rows of {field.refers!r}"
    elif field.labels:
        is_invalid, requirement = values >= len(field.labels), f"a code of {', '.join(field.labels)}"
    elif values.dtype.kind == "f":
        is_invalid, requirement = ~(np.isfinite(values) & (values >= 0)), "a number of at least 0"
    elif values.dtype.kind == "i" and not field.signed:
        is_invalid, requirement = values < minimum, f"at least {minimum}"
    elif values.dtype.kind == "S":
        is_invalid, requirement = np.array([not _is_text(value) for value in values], bool), "UTF-8"
    else:
        return
    for row in first_row(is_invalid.any(axis=tuple(range(1, is_invalid.ndim)))):
        yield f"{field.path}[{row}]: {values[row]}, needed: {requirement} ({int(is_invalid.sum())} such)"


def _is_text(value: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _rectangle_problems(trace: Trace, table: str, columns: Columns) -> Iterator[str]:
    """Yield a message for the first rectangle with rows outside the mesh; the same for columns.

    Args:
        trace: An open trace.
        table: Name of the table that contains the rectangles.
        columns: Columns of the table.
    """
    ends = (("row", "rows", trace.header.rows), ("col", "cols", trace.header.cols))
    group = next(f.path.rsplit("/", 1)[0] for f in TABLES[table] if f.name == "rows")
    for start, size, length in ends:
        begin, count = columns[start].astype("<i8"), columns[size]
        for row in first_row((begin < 0) | (count < 0) | (begin + count > length)):
            yield f"{group}/{start}[{row}]: {count[row]} {size} from {begin[row]} leave the mesh of {length}"
