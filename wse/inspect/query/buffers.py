"""Buffers in the SRAM of a stage's fullest PE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.inspect.query.view import name_at
from wse.report.result import Doc, Result
from wse_traces.read import Array, Columns, Trace
from wse_traces.schema import USES


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


def read_buffers(trace: Trace, columns: Columns, rows: Array) -> list[Buffer]:
    """The buffers of some rows of the table ``columns``."""
    ops = trace.texts("graph/ops/name")
    return [
        Buffer(
            address=int(columns["address"][row]),
            bytes=int(columns["bytes"][row]),
            use=name_at(USES, int(columns["use"][row])),
            name=bytes(columns["name"][row]).decode(errors="replace"),
            dtype=bytes(columns["dtype"][row]).decode(errors="replace"),
            live_from=name_at(ops, int(columns["live_from"][row])),
            live_to=name_at(ops, int(columns["live_to"][row])),
        )
        for row in rows.tolist()
    ]


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
