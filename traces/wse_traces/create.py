"""Create an empty trace and open it for appending, so that HDF5 leaves the file of a killed run readable.

All datasets exist from the first moment on, since HDF5's single-writer mode adds none. Texts are of
fixed length, since that mode has no others, and since their size is known before they are read.
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
from wse_traces.header import ATTRIBUTES, RunHeader
from wse_traces.schema import FIELDS, ROWS, TABLES, Field

ENDING = next(attribute for attribute in ATTRIBUTES if attribute.name == "ending")
_GZIP_LEVEL = 2  # 4 takes twice as long for two thirds of the bytes


def empty_trace(header: RunHeader) -> bytes:
    """Return the bytes of a trace with all datasets and no rows.

    Made with HDF5's low-level interface: there are a hundred datasets with several attributes each, and a run that
    takes a second should not wait for them.
    """
    image = io.BytesIO()
    with h5py.File(image, "w", libver=("v110", "v110")) as file:
        groups = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        groups.set_create_intermediate_group(True)
        for field in FIELDS:
            dtype = h5py.string_dtype("utf-8", 128) if field.dtype == schema.TEXT else np.dtype(field.dtype)
            lengths = schema.shape_of(field, header)
            space = h5py.h5s.create_simple((0, *lengths), (h5py.h5s.UNLIMITED, *lengths))
            stored, typed = _storage(schema.chunk_of(field, header)), h5py.h5t.py_create(dtype, logical=True)
            _describe(h5py.h5d.create(file.id, field.path.encode(), typed, space, stored, groups), field)
        _describe(file.create_dataset(ROWS.path, data=np.zeros(len(TABLES), ROWS.dtype)).id, ROWS)
        values = {"format": schema.FORMAT, "version": schema.VERSION, "format_doc": schema.FORMAT_DOC}
        values |= {"complete": False, ENDING.name: ""}
        for attribute in ATTRIBUTES:
            value = values.get(attribute.name, getattr(header, attribute.name, None))
            if attribute.path != "/":
                value = json.dumps(value, ensure_ascii=False, sort_keys=True)
            stored = _attribute(value, attribute.kind, attribute.room_bytes)
            _write_attribute(file[attribute.path].id, attribute.name, *stored)
    return image.getvalue()


def _storage(chunk: tuple[int, ...]) -> Any:
    """Return the HDF5 properties with which the rows of a dataset are stored."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunk)
    properties.set_shuffle()
    properties.set_deflate(_GZIP_LEVEL)
    properties.set_fletcher32()
    return properties


def write_ending(file: Any, ending: str) -> None:
    """Write the reason why a run ended into the space reserved for it, truncated where it does not fit."""
    text = ending.encode()[: ENDING.room_bytes].decode(errors="ignore")
    value, stored = _attribute(text, str, ENDING.room_bytes)
    h5py.h5a.open(file.id, ENDING.name.encode()).write(value, mtype=stored)


def _attribute(value: Any, kind: type[object], room_bytes: int = 0) -> tuple[Any, Any]:
    """Return a value and its HDF5 type. Texts have a fixed size, so that a reader can check it before it reads."""
    if kind is not str:
        array: Any = np.array(value, {int: np.int64, float: np.float64, bool: np.bool_}[kind])
        return array, h5py.h5t.py_create(array.dtype, logical=True)
    data = str(value).encode()
    size_bytes = max(1, len(data), room_bytes)
    return np.array(data, f"S{size_bytes}"), _text_type(size_bytes)


@cache
def _text_type(size_bytes: int) -> Any:
    """UTF-8 of a fixed size."""
    return h5py.h5t.py_create(h5py.string_dtype("utf-8", size_bytes), logical=True)


def _describe(dataset: Any, field: Field) -> None:
    """Write the description of a dataset as attributes."""
    texts = {"unit": field.unit, "axes": ",".join(field.axes), "doc": field.doc}
    if field.labels:
        texts["labels"] = ",".join(field.labels)
    if field.refers:
        texts["refers"] = field.refers
    texts |= {f"labels_{axis}": ",".join(schema.AXIS_LABELS[axis]) for axis in field.axes if axis in schema.AXIS_LABELS}
    for name, text in texts.items():
        _write_attribute(dataset, name, *_attribute(text, str))


def _write_attribute(owner: Any, name: str, value: Any, stored: Any) -> None:
    h5py.h5a.create(owner, name.encode(), stored, h5py.h5s.create(h5py.h5s.SCALAR)).write(value, mtype=stored)


def open_for_append(path: Path) -> Any:
    """Open a file in single-writer mode from the start.

    h5py switches to that mode only after opening, and a kill in between would leave a file that
    no reader may open. Locking is ours, since HDF5's ends with the switch.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_file_locking(False, True)  # noqa: FBT003
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    flags = h5py.h5f.ACC_RDWR | h5py.h5f.ACC_SWMR_WRITE
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, access))
