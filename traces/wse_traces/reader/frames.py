"""Convert columns to polars or pandas data frames, with names instead of codes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from wse_traces.field import Field, texts_of
from wse_traces.schema import AXIS_LABELS, flat_names

FrameKind = Literal["polars", "pandas"]
Frame = Any  # polars.DataFrame or pandas.DataFrame: neither is needed to read a trace

KINDS: Final = ("polars", "pandas")
REMEDY: Final = "pip install 'wse[frames]', or read arrays with trace.table"


def library(kind: FrameKind | None) -> Any:
    """Return the module of the data frame library to use.

    Args:
        kind: "polars" or "pandas". None selects whichever is installed, preferring polars.

    Raises:
        ImportError: The library is not installed.
        ValueError: ``kind`` has any other value.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"frames of kind {kind!r}: known are {', '.join(KINDS)}")
    for name in KINDS if kind is None else (kind,):
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    missing = f"{kind} is not installed" if kind else "frames need polars or pandas, and neither is installed"
    raise ImportError(f"{missing}; {REMEDY}")


def frame_of(
    fields: Mapping[str, Field],
    columns: Mapping[str, NDArray[Any]],
    names: Mapping[str, Sequence[str]],
    kind: FrameKind | None,
) -> Frame:
    """Return a data frame with one row per table row.

    - Codes become categories, and encoded strings become Python strings.
    - A column with a second axis becomes one column for each position on the axis.
    - An index into a table of names gets an additional column ``<column>_text`` with the names. A
      name is missing where the index is -1.

    Args:
        fields: Fields of the schema, keyed by column name. Columns without a field are kept
            unchanged.
        columns: Arrays of equal length, keyed by column name.
        names: For each table of names, the name of each of its rows.
        kind: "polars" or "pandas". None selects whichever is installed, preferring polars.
    """
    frame_columns: dict[str, Any] = {}
    module = library(kind)
    for name, values in columns.items():
        field = fields.get(name)
        if field is None:
            frame_columns[name] = values
        elif field.labels:
            frame_columns[name] = _categories(module, values, field.labels)
        elif values.dtype.kind == "S":
            frame_columns[name] = texts_of(values)
        else:
            flat = flat_names(field)
            frame_columns |= zip(flat, values.reshape(len(values), len(flat)).T, strict=True)
            if field.refers in names:
                frame_columns[f"{name}_text"] = _categories(module, values, names[field.refers])
    return module.DataFrame(frame_columns)


def long_frame(field: Field, values: NDArray[Any], first: int, kind: FrameKind | None) -> Frame:
    """Return a dataset of per-PE values as a data frame with one row per element.

    Args:
        field: Field of the schema.
        values: Array with the axes of the field.
        first: Index of the first row of ``values`` in the dataset.
        kind: "polars" or "pandas". None selects whichever is installed, preferring polars.
    """
    module = library(kind)
    frame_columns: dict[str, Any] = {}
    for axis, places in zip(field.axes, np.indices(values.shape, "<i4"), strict=True):
        flat = places.ravel() + (first if axis == field.axes[0] else 0)
        frame_columns[axis] = _categories(module, flat, AXIS_LABELS[axis]) if axis in AXIS_LABELS else flat
    return module.DataFrame({**frame_columns, field.name: values.ravel()})


def _categories(module: Any, values: NDArray[Any], names: Sequence[str]) -> Any:
    """Convert indices of names to a polars series of names, or to a pandas categorical.

    Args:
        module: The library, polars or pandas.
        values: For each row, the index of its name in ``names``, int ``[n]``. An index outside the
            list becomes null.
        names: Names, which may be repeated.
    """
    unique = {name: at for at, name in enumerate(dict.fromkeys(names))}
    places = np.array([unique[name] for name in names] + [-1], "<i8")
    has_name = (values >= 0) & (values < len(names))
    codes = places[np.where(has_name, values.astype("<i8"), -1)]
    if module.__name__ == "pandas":
        return module.Categorical.from_codes(codes, list(unique))
    texts = module.Series([*unique, None], dtype=module.String)
    return texts.gather(np.where(codes < 0, len(unique), codes)).cast(module.Enum(list(unique)))
