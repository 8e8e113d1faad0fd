"""Check a file before reading any of its data: links, types, shapes, filters and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.field import Field
from wse_traces.header import ATTRIBUTES, Attribute, RunHeader
from wse_traces.reader.chunks import storage_problems
from wse_traces.reader.column import READ_ERRORS, attribute_of, dataset_of, object_of, reason_of
from wse_traces.schema import ROWS, TABLES

_MESH_PES = 1 << 28
_ROWS_BYTES = 1 << 16


def header_problems(file: Any) -> tuple[dict[str, Any], list[str]]:
    """Read the header of a trace file and check its values.

    Args:
        file: An open HDF5 file.

    Returns:
        The values that could be read, keyed by attribute name; and a message for each problem.
    """
    values: dict[str, Any] = {}
    problems = []
    for attribute in ATTRIBUTES:
        try:
            values[attribute.name] = _header_value(file, attribute)
        except READ_ERRORS as error:
            problems.append(f"{attribute.path}: {reason_of(error)}")
    if not problems and values["format"] != schema.FORMAT:
        problems.append(f"/: attribute 'format' is {values['format']!r}, not {schema.FORMAT!r}")
    sizes = [values.get(name, 1) for name in ("wafers", "rows", "cols")]
    if min(sizes) < 1 or sizes[0] * sizes[1] * sizes[2] > _MESH_PES:
        problems.append(f"/: {sizes[0]} wafers of {sizes[1]}x{sizes[2]} PEs, needed: 1 to {_MESH_PES:,} PEs")
    if not 0 < values.get("clock_hz", 1.0) < 1e15:
        problems.append(f"/: attribute 'clock_hz' is {values['clock_hz']}, needed: above 0")
    return values, problems


def _header_value(file: Any, attribute: Attribute) -> Any:
    """Return the value of a header attribute. Attributes of the group ``run`` are parsed as JSON.

    Raises:
        ValueError: The attribute or its group is missing or malformed.
        TypeError: The JSON text is not an object.
    """
    item = object_of(file, attribute.path)
    if item is None:
        raise ValueError("is missing")
    value = attribute_of(item, attribute.name, attribute.kind)
    if attribute.path == "/":
        return value
    parsed = json.loads(value)
    if not isinstance(parsed, dict):
        raise TypeError(f"attribute {attribute.name!r} is not a JSON object")
    return parsed


def header_of(file: Any, path: Path) -> tuple[RunHeader, int, bool, str]:
    """Return the header of a trace file, the version of its schema, and the state of its run.

    Args:
        file: An open HDF5 file.
        path: Path of the file, for error messages.

    Returns:
        Header; version; whether the run is complete, which is false while it is in progress and
        after it was stopped; and why the run stopped early: its error, "interrupted" after Ctrl-C,
        or empty if the run is complete, in progress, or was killed.

    Raises:
        TraceError: The file is not a trace, has a different version, or its header is damaged.
    """
    try:
        root = object_of(file, "/")
        name, version = attribute_of(root, "format", str), attribute_of(root, "version", int)
    except ValueError as error:
        raise TraceError(f"{path}: HDF5, but not a trace ({error}); give a file that wse run --trace wrote") from error
    except READ_ERRORS as error:
        raise TraceError(f"{path}: truncated or damaged ({reason_of(error)}); make the trace again") from error
    if name == schema.FORMAT and version != schema.VERSION:
        remedy = "install a newer wse to read it" if version > schema.VERSION else "it is damaged, make it again"
        raise TraceError(f"{path}: a trace of version {version}; this program reads version {schema.VERSION}; {remedy}")
    values, problems = header_problems(file)
    if problems:
        raise TraceError(f"{path}: {problems[0]}; not a trace or a damaged one, make it again")
    header = RunHeader(**{name: values[name] for name in RunHeader.__dataclass_fields__})
    return header, version, values["complete"], values["ending"]


def row_counts(file: Any, path: Path) -> dict[str, int]:
    """Return the number of complete rows of each table.

    Args:
        file: An open HDF5 file.
        path: Path of the file, for error messages.

    Raises:
        TraceError: The dataset with the counts is missing or damaged.
    """
    try:
        dataset = dataset_of(file, ROWS.path)
        if dataset is None or dataset.dtype != ROWS.dtype or len(dataset.shape) != 1 or not _is_plain(dataset):
            raise ValueError("missing, or not a short list of integers in this file")
        values = np.zeros(dataset.shape, ROWS.dtype)
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, values)
        counts = dict(zip(attribute_of(dataset, "labels", str).split(","), values.tolist(), strict=True))
        missing_tables = [table for table in TABLES if counts.get(table, -1) < 0]
        if missing_tables:
            raise ValueError(f"no count of rows for {', '.join(missing_tables)}")
    except READ_ERRORS as error:
        raise TraceError(
            f"{path}: {ROWS.path}: {reason_of(error)}; the file is damaged, make the trace again"
        ) from error
    return {table: counts[table] for table in TABLES}


def _is_plain(dataset: Any) -> bool:
    """Return whether the row-count dataset can be read without more checks.

    It must be small, uncompressed, contiguous and stored in this file.
    """
    properties = dataset.get_create_plist()
    is_small = 0 < dataset.shape[0] * dataset.dtype.itemsize <= _ROWS_BYTES
    is_contiguous = properties.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
    return is_small and is_contiguous and not properties.get_external_count()


def checked_dataset(file: Any, field: Field, header: RunHeader, rows: int, *, complete: bool) -> tuple[Any, list[str]]:
    """Find the dataset of a field and compare its description with the schema.

    Args:
        file: An open HDF5 file.
        field: Field of the schema, which describes a dataset.
        header: Header of the trace.
        rows: Number of complete rows of the field's table.
        complete: Whether the trace is complete. If so, the dataset must not have any additional
            rows.

    Returns:
        The HDF5 identifier of the dataset, or None if it cannot be opened; and a message for each
        deviation.
    """
    try:
        dataset = dataset_of(file, field.path)
        if dataset is None:
            return None, [f"{field.path}: missing, or not a dataset of this file"]
        problems = [f"{field.path}: {problem}" for problem in _deviations(dataset, field, header)]
        length = dataset.shape[0] if dataset.shape else 0
        if length < rows or (complete and length > rows):
            problems.append(f"{field.path}: {length} rows, table {field.table!r} has {rows}")
    except READ_ERRORS as error:
        return None, [f"{field.path}: cannot be read ({reason_of(error)})"]
    return dataset, problems


def _deviations(dataset: Any, field: Field, header: RunHeader) -> Iterator[str]:
    """Yield a message for each difference between a dataset and its description in the schema.

    Type, shape, storage and attributes are compared. Only the presence of ``doc`` is checked, not
    its text.
    """
    if dataset.dtype != np.dtype(field.dtype):
        yield f"dtype {dataset.dtype}, needed: {field.dtype}"
    lengths = schema.shape_of(field, header)
    if dataset.shape[1:] != lengths or len(dataset.shape) != len(field.axes):
        yield f"shape {dataset.shape}, needed: ({', '.join(['any', *map(str, lengths)])}) for {field.axes}"
    yield from storage_problems(dataset)
    for name, expected_value in (("unit", field.unit), ("axes", ",".join(field.axes)), ("doc", None)):
        try:
            value = attribute_of(dataset, name, str)
        except ValueError as error:
            yield str(error)
            continue
        if expected_value is not None and value != expected_value:
            yield f"attribute {name!r} is {value!r}, needed: {expected_value!r}"
