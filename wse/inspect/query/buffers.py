"""Buffers in the SRAM of a stage's fullest PE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.report.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class Buffer(Result):
    """A buffer; those that share addresses are needed at different times."""

    address: Annotated[int, Doc("first byte in the SRAM of the PE", "B")]
    bytes: Annotated[int, Doc("size", "B")]
    use: Annotated[str, Doc("what it is for")]
    name: Annotated[str, Doc("name of the buffer, or of the tensors whose tile it holds")]
    dtype: Annotated[str, Doc("type of its elements")]
    live_from: Annotated[str, Doc("first op that needs it, empty: always")]
    live_to: Annotated[str, Doc("last op that needs it, empty: always")]


def tile_name(name: str) -> str:
    """The name of a buffer; of a tile of several tensors, what their names begin with once, and ``gate_up`` as its op.

    >>> tile_name("layers.0.q+layers.0.k+layers.0.v"), tile_name("layers.0.gate+layers.0.up")
    ('layers.0.q+k+v', 'layers.0.gate_up')
    """
    first, *others = name.split("+")
    stem = first[: first.rfind(".") + 1]
    joined = "+".join([first, *(other.removeprefix(stem) for other in others)])
    for prefix in ("", "shared_"):
        joined = joined.replace(f"{prefix}gate+{prefix}up", f"{prefix}gate_up")
    return joined
