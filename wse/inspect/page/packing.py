"""What becomes of arrays on their way to the page, and indices from a file that must point somewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.errors import BadTrace

Array = npt.NDArray[Any]
Pack = Callable[[Array], object | None]


def checked(path: Path, where: str, index: Array, rows: int) -> Array:
    """``index``, each -1 or one of ``rows`` rows.

    Raises:
        BadTrace: one is not.
    """
    if len(index) and not -1 <= index.min() <= index.max() < rows:
        worst = int(index.max() if index.max() >= rows else index.min())
        message = f"{path}: {where}: refers to row {worst} of {rows}; the file is damaged, make the trace again"
        raise BadTrace(message)
    return index


def packed_columns(columns: dict[str, Array], pack: Pack) -> dict[str, object] | None:
    """Each column packed; None where one found no room."""
    packed = {name: pack(np.asarray(column)) for name, column in columns.items()}
    return None if any(each is None for each in packed.values()) else packed
