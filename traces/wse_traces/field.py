"""Description of one HDF5 dataset of a trace, and the element types of recorded tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_BFLOAT16: Final = "bfloat16"
_NUMBERS: Final = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_FLOATS: Final = ("float16", "float32", "float64")
ELEMENT_BYTES: Final[Mapping[str, int]] = {
    **{name: np.dtype(name).itemsize for name in (*_NUMBERS, *_FLOATS)},
    _BFLOAT16: 2,
}


def values_of(data: NDArray[Any], dtype: bytes) -> NDArray[Any]:
    r"""Interpret bytes as an array of little-endian numbers. bfloat16 is converted to float32.

    Args:
        data: uint8 ``[bytes]``.
        dtype: Name of the type, a key of ``ELEMENT_BYTES``.

    Raises:
        ValueError: The type is unknown, or the bytes are not a whole number of elements.

    >>> values_of(np.frombuffer(b"\x80\x3f\x00\xc0", "u1"), b"bfloat16").tolist()
    [1.0, -2.0]
    """
    name = dtype.decode(errors="replace")
    if name not in ELEMENT_BYTES:
        raise ValueError(f"elements of type {name!r}, known are {', '.join(ELEMENT_BYTES)}")
    if name == _BFLOAT16:
        return (data.view("<u2").astype("<u4") << 16).view("<f4")
    return data.view(np.dtype(name).newbyteorder("<"))


def texts_of(data: NDArray[Any]) -> list[str]:
    """Decode byte strings from UTF-8. Invalid bytes are replaced by U+FFFD."""
    return [bytes(text).decode(errors="replace") for text in data]


TEXT: Final = "S128"  # UTF-8, padded with NUL


@dataclass(frozen=True, slots=True)
class Field:
    """Description of one HDF5 dataset of a trace.

    If ``signed`` is false, numbers must be at least 0. The value -1 is also allowed if ``doc`` says
    what it means.

    Attributes:
        path: Path of the dataset in the file.
        dtype: NumPy type of the elements.
        axes: Names of the axes. The first is the table, or "wafer" for a plane, which has a value
            for every PE.
        unit: Unit of the values.
        doc: Description of the values.
        labels: Names of the codes 0, 1, ...; empty if the values are not codes.
        refers: Table to whose rows the values refer by row number; empty if they are no references.
        signed: Whether negative values are allowed.
    """

    path: str
    dtype: str
    axes: tuple[str, ...]
    unit: str
    doc: str
    labels: tuple[str, ...] = ()
    refers: str = ""
    signed: bool = False

    @property
    def table(self) -> str:
        """Name of the table that the column belongs to.

        A plane, which has a value for every PE, is a table of its own.
        """
        return self.path if self.axes[0] == "wafer" else self.axes[0]

    @property
    def name(self) -> str:
        """Name of the column within its table."""
        return self.path.rsplit("/", 1)[1]

    @property
    def is_plane(self) -> bool:
        """True if each row has a value for every PE."""
        return "row" in self.axes


def reference_field(path: str, table: str, refers: str, doc: str) -> Field:
    """Describe a column of a trace whose values are row numbers of another table.

    Args:
        path: Path of the column.
        table: Table of the column.
        refers: The other table.
        doc: Description of the column.
    """
    return Field(path, "<i4", (table,), "index", doc, refers=refers)


def code_field(path: str, table: str, labels: tuple[str, ...], doc: str) -> Field:
    """Describe a column of a trace whose values are codes: 0 for the first label, 1 for the second.

    Args:
        path: Path of the column.
        table: Table of the column.
        labels: Meaning of each code.
        doc: Description of the column.
    """
    return Field(path, "u1", (table,), "code", doc, labels=labels)


def text_field(path: str, table: str, doc: str) -> Field:
    """Describe a column of a trace that contains short strings.

    Args:
        path: Path of the column.
        table: Table of the column.
        doc: Description of the column.
    """
    return Field(path, TEXT, (table,), "text", doc)


def end_field(path: str, table: str, divided: str, row: str = "") -> Field:
    """Describe a column of a trace whose values are the ends of each row's bytes in another column.

    Args:
        path: Path of the column.
        table: Table of the column.
        divided: Path of the other column.
        row: Word for a row of the table; by default, its name.
    """
    doc = f"end of its bytes in `{divided}`; they start at the end of the previous {row or table}"
    return Field(path, "<i8", (table,), "B", doc)


def rectangle_fields(group: str, table: str, owner: str) -> Iterator[Field]:
    """Yield the fields of a rectangle of PEs: first row, first column, row count, column count.

    Args:
        group: Path of the group that contains the columns.
        table: Table that the columns belong to.
        owner: Name of the object that occupies the rectangle, for the descriptions of the fields.
    """
    names = {"row": "first row", "col": "first column", "rows": "rows", "cols": "columns"}
    for name, text in names.items():
        yield Field(f"{group}/{name}", "<i4", (table,), "PE", f"{text} of {owner}")
