"""Names of tiles as people read them."""

from __future__ import annotations


def tile_name(name: str) -> str:
    """The name of a buffer; of a tile of several tensors, what their names begin with once, and ``gate_up`` as its op.

    >>> tile_name("layers.0.q+layers.0.k+layers.0.v"), tile_name("layers.0.gate+layers.0.up")
    ('layers.0.q+k+v', 'layers.0.gate_up')
    """
    first, *further_names = name.split("+")
    stem = first[: first.rfind(".") + 1]
    joined = "+".join([first, *(further_name.removeprefix(stem) for further_name in further_names)])
    for prefix in ("", "shared_"):
        joined = joined.replace(f"{prefix}gate+{prefix}up", f"{prefix}gate_up")
    return joined
