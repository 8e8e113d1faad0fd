"""What a file must be before anything in it is read: links, types, shapes, filters, sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wse_traces import schema
from wse_traces.errors import TraceError
from wse_traces.schema import ATTRIBUTES, ROWS, TABLES, Attribute, Field, RunHeader

_ATTRIBUTE_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 24
_MESH_PES = 1 << 28
_FILTERS = {
    "shuffle": h5py.h5z.FILTER_SHUFFLE,
    "gzip": h5py.h5z.FILTER_DEFLATE,
    "sum": h5py.h5z.FILTER_FLETCHER32,
}
_KINDS: Mapping[type[object], str] = {str: "S", int: "iu", float: "f", bool: "b"}
_READ_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)  # what h5py raises on damage


def reason_of(error: Exception) -> str:
    """The message of an error; that of a KeyError without the quotes which Python puts around it."""
    return str(error.args[0]) if error.args else type(error).__name__


def object_of(file: Any, path: str) -> Any:
    """A group or dataset of this very file, or None: links to other files and soft links are not followed."""
    item = file
    for part in path.strip("/").split("/") if path != "/" else ():
        if not isinstance(item, h5py.Group) or not isinstance(item.get(part, getlink=True), h5py.HardLink):
            return None
        item = item[part]
    return item


def dataset_of(file: Any, path: str) -> Any:
    """A dataset, or None if there is none at this path, or none inside this file."""
    item = object_of(file, path)
    return item if isinstance(item, h5py.Dataset) else None


def attribute_of(item: Any, name: str, kind: type[object]) -> Any:
    """The value of an attribute. Raises: ValueError if it is missing, too large or of another type."""
    if name not in item.attrs:
        message = f"attribute {name!r} is missing"
        raise ValueError(message)
    stored = h5py.h5a.open(item.id, name.encode())
    if stored.shape != () or stored.dtype.kind not in _KINDS[kind] or stored.get_storage_size() > _ATTRIBUTE_BYTES:
        message = f"attribute {name!r} is not one {kind.__name__} of at most {_ATTRIBUTE_BYTES:,} B"
        raise ValueError(message)
    value = item.attrs[name]
    return bytes(value).decode(errors="replace") if kind is str else kind(value)  # type: ignore[call-arg]


def header_problems(file: Any) -> tuple[dict[str, Any], list[str]]:
    """The header's values that could be read, and a line for each that could not."""
    values: dict[str, Any] = {}
    problems = []
    for attribute in ATTRIBUTES:
        try:
            values[attribute.name] = _header_value(file, attribute)
        except _READ_ERRORS as error:
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
    item = object_of(file, attribute.path)
    if item is None:
        message = "is missing"
        raise ValueError(message)
    value = attribute_of(item, attribute.name, attribute.kind)
    if attribute.path == "/":
        return value
    parsed = json.loads(value)
    if not isinstance(parsed, dict):
        message = f"attribute {attribute.name!r} is not a JSON object"
        raise TypeError(message)
    return parsed


def header_of(file: Any, path: Path) -> tuple[RunHeader, bool]:
    """The header, and whether the run was completed. Raises: TraceError if this is no trace for us."""
    try:
        name, version = attribute_of(file, "format", str), attribute_of(file, "version", int)
    except ValueError as error:
        message = f"{path}: HDF5, but not a trace ({error}); give a file that wse run --trace wrote"
        raise TraceError(message) from error
    except _READ_ERRORS as error:
        message = f"{path}: truncated or damaged ({reason_of(error)}); make the trace again"
        raise TraceError(message) from error
    if name == schema.FORMAT and version != schema.VERSION:
        remedy = "install a newer wse to read it" if version > schema.VERSION else "it is damaged, make it again"
        message = f"{path}: a trace of version {version}; this program reads version {schema.VERSION}; {remedy}"
        raise TraceError(message)
    values, problems = header_problems(file)
    if problems:
        message = f"{path}: {problems[0]}; not a trace or a damaged one, make it again"
        raise TraceError(message)
    return RunHeader(**{name: values[name] for name in RunHeader.__dataclass_fields__}), values["complete"]


def row_counts(file: Any, path: Path) -> dict[str, int]:
    """Rows of each table that are whole. Raises: TraceError if the dataset that says so is damaged."""
    try:
        dataset = dataset_of(file, ROWS.path)
        if dataset is None or dataset.dtype != ROWS.dtype or dataset.ndim != 1 or dataset.size > 4096:
            message = "missing, or not a short list of integers"
            raise ValueError(message)
        counts = dict(zip(attribute_of(dataset, "labels", str).split(","), dataset[...].tolist(), strict=True))
        counts = {**dict.fromkeys(schema.ADDED_TABLES, 0), **counts}
        wrong = [table for table in TABLES if counts.get(table, -1) < 0]
        if wrong:
            message = f"no count of rows for {', '.join(wrong)}"
            raise ValueError(message)
    except _READ_ERRORS as error:
        message = f"{path}: {ROWS.path}: {reason_of(error)}; the file is damaged, make the trace again"
        raise TraceError(message) from error
    return {table: counts[table] for table in TABLES}


def problems_of_dataset(file: Any, field: Field, header: RunHeader, rows: int, *, complete: bool) -> Iterator[str]:
    """All deviations of one dataset's description from the schema; nothing of its data is read."""
    try:
        dataset = dataset_of(file, field.path)
        if dataset is None and field.table in schema.ADDED_TABLES and rows == 0:
            return
        if dataset is None:
            yield f"{field.path}: missing, or not a dataset of this file"
            return
        yield from (f"{field.path}: {problem}" for problem in _deviations(dataset, field, header))
        found = dataset.shape[0] if dataset.ndim else 0
        if found < rows or (complete and found > rows):
            yield f"{field.path}: {found} rows, table {field.table!r} has {rows}"
    except _READ_ERRORS as error:
        yield f"{field.path}: cannot be read ({reason_of(error)})"


def _deviations(dataset: Any, field: Field, header: RunHeader) -> Iterator[str]:
    if dataset.dtype != np.dtype(field.dtype):
        yield f"dtype {dataset.dtype}, needed: {field.dtype}"
    lengths = schema.shape_of(field, header)
    if dataset.shape[1:] != lengths or dataset.ndim != len(field.axes):
        yield f"shape {dataset.shape}, needed: ({', '.join(['any', *map(str, lengths)])}) for {field.axes}"
    if dataset.is_virtual or dataset.external:
        yield "its data is in other files"
        return
    if dataset.chunks is None:
        yield "not chunked"
        return
    size = int(np.prod(dataset.chunks, dtype=object)) * dataset.dtype.itemsize
    if size > _CHUNK_BYTES:
        yield f"chunks of {size:,} B, at most {_CHUNK_BYTES:,} B"
    creation = dataset.id.get_create_plist()
    for code in (creation.get_filter(i)[0] for i in range(creation.get_nfilters())):
        if code not in _FILTERS.values():
            yield f"stored with filter {code}, allowed: {', '.join(_FILTERS)}"
    for name, needed in (("unit", field.unit), ("axes", ",".join(field.axes)), ("doc", None)):
        try:
            found = attribute_of(dataset, name, str)
        except ValueError as error:
            yield str(error)
            continue
        if needed is not None and found != needed:
            yield f"attribute {name!r} is {found!r}, needed: {needed!r}"
