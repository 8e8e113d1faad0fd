"""Create an empty trace, and open it for appending so that it stays readable after a kill.

All datasets exist from the start, because HDF5's single-writer mode cannot add any. Texts have a
fixed length, because that mode supports no other kind, and because readers can then check their
size before reading them.
"""

from __future__ import annotations

import io
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wse_traces import schema
from wse_traces.field import TEXT, Field
from wse_traces.header import ATTRIBUTES, RunHeader
from wse_traces.schema import FIELDS, ROWS, TABLES

ENDING = next(attribute for attribute in ATTRIBUTES if attribute.name == "ending")
_GZIP_LEVEL = 2  # level 4 needs twice the time and produces two thirds of the bytes


def empty_trace(header: RunHeader) -> bytes:
    """Return the bytes of an empty trace file, with all datasets and no rows.

    HDF5's low-level interface is used, because creating a hundred datasets with several attributes
    each would otherwise take a noticeable part of a short run.
    """
    image = io.BytesIO()
    with h5py.File(image, "w", libver=("v110", "v110")) as file:
        groups = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        groups.set_create_intermediate_group(True)
        for field in FIELDS:
            dtype = h5py.string_dtype("utf-8", 128) if field.dtype == TEXT else np.dtype(field.dtype)
            lengths = schema.shape_of(field, header)
            space = h5py.h5s.create_simple((0, *lengths), (h5py.h5s.UNLIMITED, *lengths))
            storage, stored_type = _storage(schema.chunk_of(field, header)), h5py.h5t.py_create(dtype, logical=True)
            _describe(h5py.h5d.create(file.id, field.path.encode(), stored_type, space, storage, groups), field)
        _describe(file.create_dataset(ROWS.path, data=np.zeros(len(TABLES), ROWS.dtype)).id, ROWS)
        values = {"format": schema.FORMAT, "version": schema.VERSION, "format_doc": schema.FORMAT_DOC}
        values |= {"complete": False, ENDING.name: ""}
        for attribute in ATTRIBUTES:
            value = values.get(attribute.name, getattr(header, attribute.name, None))
            if attribute.path != "/":
                value = json.dumps(value, ensure_ascii=False, sort_keys=True)
            array, stored_type = _attribute(value, attribute.kind, attribute.room_bytes)
            _write_attribute(file[attribute.path].id, attribute.name, array, stored_type)
    return image.getvalue()


def _storage(chunk: tuple[int, ...]) -> Any:
    """Return the HDF5 creation properties of a dataset: its chunk shape and its filters."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunk)
    properties.set_shuffle()
    properties.set_deflate(_GZIP_LEVEL)
    properties.set_fletcher32()
    return properties


def write_ending(file: Any, ending: str) -> None:
    """Write the reason why a run ended to the trace. A long string is truncated.

    An empty trace contains reserved space for this string.
    """
    text = ending.encode()[: ENDING.room_bytes].decode(errors="ignore")
    value, stored_type = _attribute(text, str, ENDING.room_bytes)
    h5py.h5a.open(file.id, ENDING.name.encode()).write(value, mtype=stored_type)


def _attribute(value: Any, kind: type[object], room_bytes: int = 0) -> tuple[Any, Any]:
    """Return the value of an attribute as an array, and its HDF5 type.

    Strings have a fixed size, so that a reader can check the size before it reads the string.

    Args:
        value: Value of the attribute.
        kind: Python type: str, int, float or bool.
        room_bytes: Minimum size of a string.
    """
    if kind is not str:
        array: Any = np.array(value, {int: np.int64, float: np.float64, bool: np.bool_}[kind])
        return array, h5py.h5t.py_create(array.dtype, logical=True)
    data = str(value).encode()
    size_bytes = max(1, len(data), room_bytes)
    return np.array(data, f"S{size_bytes}"), _text_type(size_bytes)


@cache
def _text_type(size_bytes: int) -> Any:
    """Return the HDF5 type of fixed-size UTF-8 strings."""
    return h5py.h5t.py_create(h5py.string_dtype("utf-8", size_bytes), logical=True)


def _describe(dataset: Any, field: Field) -> None:
    """Write the schema's description of a field to its dataset, as attributes."""
    texts = {"unit": field.unit, "axes": ",".join(field.axes), "doc": field.doc}
    if field.labels:
        texts["labels"] = ",".join(field.labels)
    if field.refers:
        texts["refers"] = field.refers
    texts |= {f"labels_{axis}": ",".join(schema.AXIS_LABELS[axis]) for axis in field.axes if axis in schema.AXIS_LABELS}
    for name, text in texts.items():
        _write_attribute(dataset, name, *_attribute(text, str))


def _write_attribute(owner: Any, name: str, value: Any, stored_type: Any) -> None:
    """Create an attribute of a dataset or group.

    Args:
        owner: The dataset or group.
        name: Name of the attribute.
        value: Value as an array.
        stored_type: HDF5 type of the value.
    """
    h5py.h5a.create(owner, name.encode(), stored_type, h5py.h5s.create(h5py.h5s.SCALAR)).write(value, mtype=stored_type)


def open_for_append(path: Path) -> Any:
    """Open a trace in HDF5's mode for one writer and many readers.

    h5py itself can only switch to this mode after it has opened the file. If the process were
    killed between the two steps, no reader could open the file. HDF5's file locking is disabled,
    because it ends with the switch; the caller must lock the file.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_file_locking(False, True)  # noqa: FBT003
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    flags = h5py.h5f.ACC_RDWR | h5py.h5f.ACC_SWMR_WRITE
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, access))
