"""Contents of a buffer of a PE: its bytes in a pass, as a run with ``--record-pe`` left them, and their numbers."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from wse.errors import BadInput, BadTrace
from wse.reports.result import Doc, Result
from wse.reports.tile_name import tile_name
from wse.tracing.query.costs.passes import phase_of_pass
from wse.tracing.query.view import View
from wse_traces.elements import values_of
from wse_traces.read import Array, Trace


@dataclass(frozen=True, kw_only=True)
class Content(Result):
    """The bytes of a buffer of one PE, and the numbers that they are."""

    wafer: Annotated[int, Doc("wafer of the PE")]
    row: Annotated[int, Doc("its row")]
    col: Annotated[int, Doc("its column")]
    buffer: Annotated[str, Doc("name of the buffer")]
    use: Annotated[str, Doc("what it is for")]
    address: Annotated[int, Doc("first byte in the SRAM of the PE", "B")]
    bytes: Annotated[int, Doc("size", "B")]
    dtype: Annotated[str, Doc("type of its elements")]
    shape: Annotated[tuple[int, ...], Doc("lengths of its axes: elements lie in one row")]
    pass_: Annotated[int, Doc("pass whose end, or whose last step that needs the buffer, they were read at")]
    phase: Annotated[str, Doc("`prefill`, `decode` or `verify`: of that pass")]
    since_pass: Annotated[int, Doc("first pass from which on they were the same")]
    elements: Annotated[tuple[float | int, ...], Doc("the elements; null: infinite or no number")]
    hex: Annotated[str, Doc("the bytes, two hexadecimal digits each")]

    def numbers(self) -> Array:
        """Return the elements ``[element]``, bfloat16 as float32."""
        return values_of(np.frombuffer(self.raw(), np.uint8), self.dtype.encode())

    def raw(self) -> bytearray:
        """Return the bytes as they lay in SRAM."""
        return bytearray.fromhex(self.hex)


@dataclass(frozen=True, kw_only=True)
class DumpView(View):
    """A buffer of a PE."""

    content: Annotated[Content, Doc("the buffer and what it held")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each element, with its address."""
        content = self.content
        size = content.bytes // max(1, len(content.elements))
        return [
            {"element": index, "address": content.address + index * size, "value": value}
            for index, value in enumerate(content.elements)
        ]


def read_content(trace: Trace, pe: tuple[int, int, int], name: str, pass_index: int | None) -> Content:
    """Return what a buffer of a PE held in a pass, or in the last one.

    Args:
        trace: An open trace.
        pe: Wafer, row and column.
        name: Name of the buffer, as the SRAM map prints it or whole, or its address, such as ``0xb280``.
        pass_index: The pass; None: the last that recorded anything.

    Raises:
        BadTrace: nothing of this PE was recorded.
        BadInput: there is no such buffer or pass, or the name is that of several.
        TraceError: the trace is damaged.
    """
    columns = trace.table("content")
    of_pe = np.flatnonzero(np.all([columns[key] == at for key, at in zip(("wafer", "row", "col"), pe, strict=True)], 0))
    place = f"{pe[0]}:{pe[1]},{pe[2]}" if trace.header.wafers > 1 else f"{pe[1]},{pe[2]}"
    if not len(of_pe):
        remedy = f"record them: wse run --record-pe {place} --trace FILE"
        message = f"--dump {name}: {trace.path} has no bytes of the PE {place}; {remedy}"
        raise BadTrace(message)
    buffer = _buffer_named(trace, np.unique(columns["buffer"][of_pe]), name)
    rows = of_pe[columns["buffer"][of_pe] == buffer["index"]]
    last = trace.rows("pass") - 1 if pass_index is None else pass_index
    rows = rows[columns["pass"][rows] <= last]
    if last >= trace.rows("pass") or not len(rows):
        has = f"{trace.path} has the passes 0 to {trace.rows('pass') - 1}"
        message = f"--pass {last}: nothing of {name} was recorded until then; {has}; give another"
        raise BadInput(message)
    data = trace.content(int(rows[-1]))
    try:
        values = values_of(data, buffer["dtype"].encode())
    except ValueError as error:
        message = f"{trace.path}: contents: row {rows[-1]} cannot be read ({error}); make the trace again"
        raise BadTrace(message) from error
    since = int(columns["pass"][rows[-1]])
    return Content.from_record(
        buffer,
        wafer=pe[0],
        row=pe[1],
        col=pe[2],
        buffer=buffer["name"],
        shape=values.shape,
        pass_=last,
        phase=phase_of_pass(trace, last),
        since_pass=since,
        elements=tuple(values.tolist()),
        hex=data.tobytes().hex(),
    )


def _buffer_named(trace: Trace, buffers: Array, name: str) -> dict[str, Any]:
    """Return the one of some buffers that a name or an address means, with its ``index``.

    Raises BadInput if there is none.
    """
    records = [
        {"index": index, **record}
        for index, record in zip(buffers.tolist(), trace.records("buffer", buffers), strict=True)
    ]
    matches = [record for record in records if name in (record["name"], tile_name(record["name"]))]
    matches = matches or [record for record in records if name.lower() == _address(record)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        places = ", ".join(f"{tile_name(record['name'])} at {_address(record)}" for record in matches)
        what = "an address" if len({record["name"] for record in matches}) == 1 else "a name"
        message = f"--dump {name}: there are several: {places}; give {what}"
        raise BadInput(message)
    names = [tile_name(record["name"]) for record in records]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    known = ", ".join(dict.fromkeys(re.sub(r"^layers\.\d+\.", "layers.*.", each) for each in names))
    message = f"--dump {name}: no such buffer was recorded: {hint}known: {known}"
    raise BadInput(message)


def _address(record: dict[str, Any]) -> str:
    return f"{record['address']:#06x}"
