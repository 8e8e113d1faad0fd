"""Create an empty trace and open it for appending: what in HDF5 makes a killed run readable.

All datasets exist from the first moment on, since HDF5's single-writer mode adds none. Texts are of
fixed length, since that mode has no others, and since their size is known before they are read.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wse_traces import schema
from wse_traces.header import ATTRIBUTES, RunHeader
from wse_traces.schema import FIELDS, ROWS, TABLES, Field

_GZIP_LEVEL = 2  # 4 takes twice as long for two thirds of the bytes


def _text(text: str) -> Any:
    """A text as HDF5 stores it in place, with a size that a reader can check before it reads."""
    data = text.encode()
    return np.array(data, h5py.string_dtype("utf-8", max(1, len(data))))


def empty_trace(header: RunHeader) -> bytes:
    """The bytes of a trace with all datasets, none of which has rows."""
    image = io.BytesIO()
    with h5py.File(image, "w", libver=("v110", "v110")) as file:
        for field in FIELDS:
            dataset = file.create_dataset(
                field.path,
                shape=(0, *schema.shape_of(field, header)),
                maxshape=(None, *schema.shape_of(field, header)),
                chunks=schema.chunk_of(field, header),
                dtype=h5py.string_dtype("utf-8", 128) if field.dtype == schema.TEXT else field.dtype,
                compression="gzip",
                compression_opts=_GZIP_LEVEL,
                shuffle=True,
                fletcher32=True,
            )
            _describe(dataset, field)
        _describe(file.create_dataset(ROWS.path, data=np.zeros(len(TABLES), ROWS.dtype)), ROWS)
        values = {"format": schema.FORMAT, "version": schema.VERSION, "complete": False}
        for attribute in ATTRIBUTES:
            value = values.get(attribute.name, getattr(header, attribute.name, None))
            if attribute.path != "/":
                value = json.dumps(value, ensure_ascii=False, sort_keys=True)
            file[attribute.path].attrs[attribute.name] = _attribute(value, attribute.kind)
    return image.getvalue()


def _attribute(value: Any, kind: type[object]) -> Any:
    if kind is str:
        return _text(value)
    return {int: np.int64, float: np.float64, bool: np.bool_}[kind](value)


def _describe(dataset: Any, field: Field) -> None:
    """Write what a stranger needs to know of a dataset beside it."""
    texts = {"unit": field.unit, "axes": ",".join(field.axes), "doc": field.doc}
    if field.labels:
        texts["labels"] = ",".join(field.labels)
    if field.refers:
        texts["refers"] = field.refers
    for name, text in texts.items():
        dataset.attrs[name] = _text(text)


def open_for_append(path: Path) -> Any:
    """Open in single-writer mode from the first moment on.

    h5py switches to that mode only after opening, and a kill in between would leave a file that
    no reader may open. Locking is ours, since HDF5's ends with the switch.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_file_locking(False, True)  # noqa: FBT003
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    flags = h5py.h5f.ACC_RDWR | h5py.h5f.ACC_SWMR_WRITE
    return h5py.File(h5py.h5f.open(os.fsencode(path), flags, access))
