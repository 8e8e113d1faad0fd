"""The state of an engine whose wafers are elsewhere: put together from those of its parts, and taken apart for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.program.program import Program
from wse.program.steps import HOST

Arrays = Mapping[str, npt.NDArray[Any]]


def merge_states(host: Arrays, parts: Sequence[Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Return the state of an engine of ``parts``, one a wafer, and a ``host`` without any stage.

    The host's ids and logits and its counters of caches count, and the parts' memory and words.
    """
    whole = dict(host)
    for part in parts:
        whole |= {name: array for name, array in part.items() if name.startswith(("memory.", "links."))}
    whole["links"] = np.concatenate([part["links"] for part in parts])
    whole["crossed"] = np.sum([part["crossed"] for part in parts], axis=0)
    return whole


def state_of_wafer(program: Program, arrays: Arrays, wafer: int) -> dict[str, npt.NDArray[Any]]:
    """The part of an engine's state that one wafer has; what a wafer and the host exchanged counts with the wafer.

    Raises:
        ValueError: words of links or bytes that crossed are missing, or are not of the Program's wafers.
    """
    wafers = program.wafers
    sizes = {
        "links": (wafers, 4, program.wafer_rows, program.wafer_cols),
        "crossed": (wafers + 1, wafers + 1),  # as `state_of` has them: the host is first
    }
    for name, shape in sizes.items():
        array = arrays.get(name)
        if array is None or (array.dtype, array.shape) != (np.dtype(np.int64), shape):
            has = "is missing" if array is None else f"{array.dtype} {list(array.shape)}"
            message = f"{name}: {has}, needed: int64 {list(shape)}"
            raise ValueError(message)
    elsewhere = {
        f"{kind}.{number}"
        for kind in ("memory", "links")
        for number, stage in enumerate(program.stages)
        if stage.wafer != wafer
    }
    part = {name: array for name, array in arrays.items() if name not in elsewhere}
    part["links"] = arrays["links"][wafer : wafer + 1]
    part["crossed"] = np.zeros_like(arrays["crossed"])
    for ends in np.s_[1 + wafer, :], np.s_[1 + HOST, 1 + wafer]:
        part["crossed"][ends] = arrays["crossed"][ends]
    return part
