"""Displayed names of tiles: the blocks of weight matrices that a PE stores."""

from __future__ import annotations


def tile_name(name: str) -> str:
    """Return the displayed name of a buffer that stores weights.

    If the buffer stores several tensors, the common prefix of their names is written once. The pair
    ``gate`` and ``up`` is written as the op ``gate_up``.

    >>> tile_name("layers.0.q+layers.0.k+layers.0.v"), tile_name("layers.0.gate+layers.0.up")
    ('layers.0.q+k+v', 'layers.0.gate_up')
    """
    first, *further_names = name.split("+")
    stem = first[: first.rfind(".") + 1]
    display_name = "+".join([first, *(further_name.removeprefix(stem) for further_name in further_names)])
    for prefix in ("", "shared_"):
        display_name = display_name.replace(f"{prefix}gate+{prefix}up", f"{prefix}gate_up")
    return display_name
