"""Columns of a trace as a frame of polars or pandas, whichever is installed: names instead of codes."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from wse_traces.schema import AXIS_LABELS, Field

FrameKind = Literal["polars", "pandas"]
Frame = Any  # polars.DataFrame or pandas.DataFrame: neither is needed to read a trace

KINDS: Final = ("polars", "pandas")
REMEDY: Final = "pip install 'wse[frames]', or read arrays with trace.table"


def library(kind: FrameKind | None) -> tuple[FrameKind, Any]:
    """Return the library for frames: the requested one, else polars, else pandas.

    Raises: ImportError if it is not installed; ValueError if it is neither of the two.
    """
    if kind is not None and kind not in KINDS:
        message = f"frames of kind {kind!r}: known are {', '.join(KINDS)}"
        raise ValueError(message)
    for name in KINDS if kind is None else (kind,):
        if importlib.util.find_spec(name) is not None:
            return name, importlib.import_module(name)
    missing = f"{kind} is not installed" if kind else "frames need polars or pandas, and neither is installed"
    message = f"{missing}; {REMEDY}"
    raise ImportError(message)


def frame_of(
    fields: Mapping[str, Field],
    columns: Mapping[str, NDArray[Any]],
    names: Mapping[str, Sequence[str]],
    kind: FrameKind | None,
) -> Frame:
    """Return a frame of columns with one row per row of the table.

    Codes become categories, texts become strings, a column with an axis of its own becomes a column for each of its
    places, and beside an index into a table of names stands ``<column>_text`` with the name, missing for -1.

    Args:
        fields: What the schema says of a column, by its name; columns that it does not know are taken as they are.
        columns: The arrays, by name, all of one length.
        names: For a table that indices point into, the name of each of its rows.
        kind: "polars" or "pandas"; by default the one that is installed, polars first.
    """
    frame_columns: dict[str, Any] = {}
    chosen, module = library(kind)
    categories = _polars_categories if chosen == "polars" else _pandas_categories
    for name, values in columns.items():
        field = fields.get(name)
        if field is None:
            frame_columns[name] = values
        elif field.labels:
            frame_columns[name] = categories(module, values, field.labels)
        elif values.dtype.kind == "S":
            frame_columns[name] = [bytes(text).decode(errors="replace") for text in values]
        elif values.ndim == 1:
            frame_columns[name] = values
            if field.refers in names:
                frame_columns[f"{name}_text"] = categories(module, values, names[field.refers])
        else:
            frame_columns |= _by_place(field, values)
    return module.DataFrame(frame_columns)


def long_frame(field: Field, values: NDArray[Any], first: int, kind: FrameKind | None) -> Frame:
    """Return a plane from its row ``first`` on as a frame with one row per element."""
    chosen, module = library(kind)
    categories = _polars_categories if chosen == "polars" else _pandas_categories
    frame_columns: dict[str, Any] = {}
    for axis, places in zip(field.axes, np.indices(values.shape, "<i4"), strict=True):
        flat = places.ravel() + (first if axis == field.axes[0] else 0)
        frame_columns[axis] = categories(module, flat, AXIS_LABELS[axis]) if axis in AXIS_LABELS else flat
    return module.DataFrame({**frame_columns, field.name: values.ravel()})


def _by_place(field: Field, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return a column for each position on the axes after the first: ``cycles_by_hops``, ``shape_0``."""
    axes = [AXIS_LABELS.get(a, [str(i) for i in range(n)]) for a, n in zip(field.axes, values.shape, strict=True)][1:]
    flat = values.reshape(len(values), -1)
    return {"_".join((field.name, *place)): flat[:, i] for i, place in enumerate(itertools.product(*axes))}


def _codes(values: NDArray[Any], names: Sequence[str]) -> tuple[NDArray[Any], list[str]]:
    """Return the distinct names, and for each value the index of its name, -1 where it has none."""
    unique = {name: at for at, name in enumerate(dict.fromkeys(names))}
    places = np.array([unique[name] for name in names] + [-1], "<i8")
    known = (values >= 0) & (values < len(names))
    return places[np.where(known, values.astype("<i8"), -1)], list(unique)


def _polars_categories(polars: Any, values: NDArray[Any], names: Sequence[str]) -> Any:
    codes, unique = _codes(values, names)
    texts = polars.Series([*unique, None], dtype=polars.String)
    return texts.gather(np.where(codes < 0, len(unique), codes)).cast(polars.Enum(unique))


def _pandas_categories(pandas: Any, values: NDArray[Any], names: Sequence[str]) -> Any:
    codes, unique = _codes(values, names)
    return pandas.Categorical.from_codes(codes, unique)
