"""A trace column, whose values are read on demand, and look-ups in an HDF5 file.

HDF5's low-level interface is used for speed and safety: it opens nothing implicitly, and a trace
has about a hundred datasets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

from wse_traces.field import Field
from wse_traces.reader.chunks import Box
from wse_traces.schema import AXIS_LABELS

ATTRIBUTE_BYTES = 1 << 20
_KINDS: Mapping[type[object], str] = {int: "iu", float: "f", bool: "b"}
CHECKSUM_REASON = "its bytes do not add up to their checksum"
READ_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)  # raised by h5py for damaged files


def reason_of(error: Exception) -> str:
    """Return the reason for a read error as one line, such as "its bytes do not add up to ...".

    Messages of HDF5 describe the internals of the library rather than what is wrong with the file,
    so they are replaced. Messages of the operating system are kept.
    """
    if isinstance(error, (OSError, RuntimeError, KeyError)) and not isinstance(error, RecursionError):
        system_reason = error.strerror if isinstance(error, OSError) else None
        return system_reason or (CHECKSUM_REASON if "checksum" in str(error) else "HDF5 cannot interpret its bytes")
    return str(error.args[0]) if error.args else type(error).__name__


def object_of(file: Any, path: str) -> Any:
    """Return the HDF5 identifier of a group or dataset, or None if it is not stored in this file.

    Soft and external links are not followed.
    """
    item = h5py.h5g.open(file.id, b"/")
    for part in path.encode().strip(b"/").split(b"/") if path != "/" else ():
        if not isinstance(item, h5py.h5g.GroupID) or not item.links.exists(part):
            return None
        if item.links.get_info(part).type != h5py.h5l.TYPE_HARD:
            return None
        item = h5py.h5o.open(item, part)
    return item


def dataset_of(file: Any, path: str) -> Any:
    """Return the HDF5 identifier of a dataset, or None if this file has no dataset at the path."""
    item = object_of(file, path)
    return item if isinstance(item, h5py.h5d.DatasetID) else None


def has_attribute(item: Any, name: str) -> bool:
    """Return whether a group or dataset has an attribute with this name."""
    return bool(h5py.h5a.exists(item, name.encode()))


def attribute_of(item: Any, name: str, kind: type[object]) -> Any:
    """Return the value of an attribute of a group or dataset.

    Args:
        item: HDF5 identifier of the group or dataset.
        name: Name of the attribute.
        kind: Expected Python type: str, int, float or bool.

    Raises:
        ValueError: The attribute is missing, too large, of a different type, or not UTF-8.
    """
    if not has_attribute(item, name):
        raise ValueError(f"attribute {name!r} is missing")
    attribute = h5py.h5a.open(item, name.encode())
    size = attribute.get_storage_size()
    if attribute.shape != () or not 0 < size <= ATTRIBUTE_BYTES or not _is_of(attribute.get_type(), kind):
        raise ValueError(f"attribute {name!r} is not one {kind.__name__} of at most {ATTRIBUTE_BYTES:,} B")
    if kind is not str:
        value = np.zeros((), attribute.dtype)
        attribute.read(value)
        return kind(value[()])  # type: ignore[call-arg]
    data = np.zeros((), f"S{size}")
    attribute.read(data, mtype=attribute.get_type())
    try:
        return data.tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"attribute {name!r} is not UTF-8 ({error.reason} at byte {error.start})") from error


def _is_of(stored_type: Any, kind: type[object]) -> bool:
    """Return whether a stored HDF5 type represents the expected Python type.

    Strings must have a fixed length. Booleans are stored as enumerations.
    """
    if kind is str:
        return isinstance(stored_type, h5py.h5t.TypeStringID) and not stored_type.is_variable_str()
    return stored_type.dtype.kind in _KINDS[kind]


class Column:
    """A trace dataset that is read on demand.

    Indexing with integers and slices reads only the selected values. ``np.asarray(column)`` and
    ``column[:]`` read all values.

    Attributes:
        path: Path of the dataset in the file.
        unit: Unit of the values.
        axes: Names of the axes. The first is the table.
        doc: Description of the values.
        labels: Names of the codes 0, 1, …; empty if the values are not codes.
        refers: Table to whose rows the values refer, or empty.
        shape: Shape of the dataset, counting only complete rows.
        dtype: Type of the elements.

    >>> from wse_traces import open_trace
    >>> by_cause = open_trace("traces/golden/v1/story.h5")["steps/cycles_by"]
    >>> by_cause.shape, by_cause.axes, by_cause.unit
    ((478, 6), ('step', 'cause'), 'cycle')
    >>> by_cause.axis_labels["cause"][2]
    'compute'
    >>> by_cause[3, 2:4]
    array([...])
    """

    def __init__(self, field: Field, shape: tuple[int, ...], read: Callable[[Box], NDArray[Any]]) -> None:
        self.path, self.unit, self.axes, self.doc = field.path, field.unit, field.axes, field.doc
        self.labels, self.refers = field.labels, field.refers
        self.shape, self.dtype = shape, np.dtype(field.dtype)
        self._read = read

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def axis_labels(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the positions on axes such as ``direction``, keyed by axis name.

        Axes without named positions are omitted.
        """
        return {axis: AXIS_LABELS[axis] for axis in self.axes if axis in AXIS_LABELS}

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Return the selected values as a NumPy array. Only the chunks that contain them are read.

        Args:
            key: Integers, slices and at most one ellipsis, with the same meaning as in NumPy.

        Raises:
            IndexError: An integer is out of range, or there are too many indices.
            TypeError: The key is of another type.
            TraceError: The file is damaged.
        """
        keys = list(key) if isinstance(key, tuple) else [key]
        for at in [i for i, part in enumerate(keys) if part is Ellipsis][:1]:
            keys[at : at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        if len(keys) > self.ndim:
            raise IndexError(f"{self.path}: {len(keys)} indices, it has the axes {', '.join(self.axes)}")
        keys += [slice(None)] * (self.ndim - len(keys))
        selections = [self._chosen_places(axis, part) for axis, part in enumerate(keys)]
        box = tuple((min(at[0], at[-1]), max(at[0], at[-1]) + 1) if at else (0, 0) for at, _ in selections)
        return self._read(box)[tuple(inner_key for _, inner_key in selections)]

    def _chosen_places(self, axis: int, key: Any) -> tuple[range, int | slice]:
        """Return which positions of an axis must be read to index the axis with ``key``.

        Args:
            axis: Index of the axis.
            key: An integer or a slice.

        Returns:
            The selected positions on the axis, and the index that selects them within the range
            that is read.
        """
        length = self.shape[axis]
        if isinstance(key, slice):
            places = range(*key.indices(length))
            return places, slice(None, None, places.step)
        try:
            at = operator.index(key)
        except TypeError:
            raise TypeError(
                f"{self.path}: integers and slices select from a column, not {type(key).__name__}; read it first"
            ) from None
        if not -length <= at < length:
            raise IndexError(f"{self.path}: {at} on the axis {self.axes[axis]!r} of length {length}")
        return range(at % length, at % length + 1), 0

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the rows. All values are read first."""
        return iter(self[:])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001
        """Return all values as an array."""
        if copy is False:
            raise ValueError(f"{self.path}: its values are in a file, so an array of them is a copy")
        values: NDArray[Any] = self[:]
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<Column {self.path} {self.shape} {self.dtype} in {self.unit}: {self.doc}>"
