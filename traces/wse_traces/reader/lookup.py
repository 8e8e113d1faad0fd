"""Look up groups, datasets and attributes in an HDF5 file, without following links out of it.

HDF5's low-level interface is used for speed and safety: it opens nothing implicitly, and a trace
has about a hundred datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

ATTRIBUTE_BYTES = 1 << 20
_KINDS: Mapping[type[object], str] = {int: "iu", float: "f", bool: "b"}
CHECKSUM_REASON = "its bytes do not add up to their checksum"
READ_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)  # raised by h5py for damaged files


def reason_of(error: Exception) -> str:
    """Return the cause of an error as one line.

    HDF5 messages are replaced by their meaning for the file.
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
        message = f"attribute {name!r} is missing"
        raise ValueError(message)
    attribute = h5py.h5a.open(item, name.encode())
    size = attribute.get_storage_size()
    if attribute.shape != () or not 0 < size <= ATTRIBUTE_BYTES or not _is_of(attribute.get_type(), kind):
        message = f"attribute {name!r} is not one {kind.__name__} of at most {ATTRIBUTE_BYTES:,} B"
        raise ValueError(message)
    if kind is not str:
        value = np.zeros((), attribute.dtype)
        attribute.read(value)
        return kind(value[()])  # type: ignore[call-arg]
    data = np.zeros((), f"S{size}")
    attribute.read(data, mtype=attribute.get_type())
    try:
        return data.tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        message = f"attribute {name!r} is not UTF-8 ({error.reason} at byte {error.start})"
        raise ValueError(message) from error


def _is_of(stored_type: Any, kind: type[object]) -> bool:
    """Return whether a stored HDF5 type represents the expected Python type.

    Texts must have a fixed length. Booleans are stored as enumerations.
    """
    if kind is str:
        return isinstance(stored_type, h5py.h5t.TypeStringID) and not stored_type.is_variable_str()
    return stored_type.dtype.kind in _KINDS[kind]
