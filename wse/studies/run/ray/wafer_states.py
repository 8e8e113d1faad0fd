"""Conversion of an engine's state to and from the states of its wafers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.program.program import Program
from wse.program.steps import HOST

Arrays = Mapping[str, npt.NDArray[Any]]


def merge_states(host: Arrays, parts: Sequence[Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Combine the states of all wafers and of the host into the state of one emulated machine.

    Args:
        host: State of the host, with token ids, logits and the fill levels of KV caches.
        parts: State of each wafer, with the SRAM contents and the word counts of links.

    Returns:
        The arrays of the state, keyed by name.
    """
    merged_state = dict(host)
    for part in parts:
        merged_state |= {name: array for name, array in part.items() if name.startswith(("memory.", "links."))}
    merged_state["links"] = np.concatenate([part["links"] for part in parts])
    merged_state["crossed"] = np.sum([part["crossed"] for part in parts], axis=0)
    return merged_state


def state_of_wafer(program: Program, arrays: Arrays, wafer: int) -> dict[str, npt.NDArray[Any]]:
    """Return the part of an emulated machine's state that one wafer needs to continue.

    Among the inter-wafer byte counters, a wafer owns the counters for bytes that it sends and for
    bytes that it receives from the host.

    Args:
        program: The compiled Program.
        arrays: State of the whole machine, keyed by array name.
        wafer: Index of the wafer.

    Raises:
        ValueError: The link or crossing counters are missing, or their shapes do not match the
            Program.
    """
    wafers = program.wafers
    sizes = {
        "links": (wafers, 4, program.wafer_rows, program.wafer_cols),
        "crossed": (wafers + 1, wafers + 1),  # as `state_of` has them: the host is first
    }
    for name, shape in sizes.items():
        array = arrays.get(name)
        if array is None or (array.dtype, array.shape) != (np.dtype(np.int64), shape):
            found_text = "is missing" if array is None else f"{array.dtype} {list(array.shape)}"
            message = f"{name}: {found_text}, needed: int64 {list(shape)}"
            raise ValueError(message)
    other_names = {
        f"{kind}.{number}"
        for kind in ("memory", "links")
        for number, stage in enumerate(program.stages)
        if stage.wafer != wafer
    }
    part = {name: array for name, array in arrays.items() if name not in other_names}
    part["links"] = arrays["links"][wafer : wafer + 1]
    part["crossed"] = np.zeros_like(arrays["crossed"])
    for ends in np.s_[1 + wafer, :], np.s_[1 + HOST, 1 + wafer]:
        part["crossed"][ends] = arrays["crossed"][ends]
    return part
