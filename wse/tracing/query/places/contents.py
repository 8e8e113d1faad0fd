"""View of the contents of one SRAM buffer of a PE, recorded by a run with ``--record-pe``."""

from __future__ import annotations

import difflib
import io
import re
from typing import Annotated, Any

import numpy as np

from wse.errors import BadInput, BadTrace
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import tile_name
from wse.tracing.query.costs.steps import phase_of_pass
from wse.tracing.query.view import View
from wse_traces.field import values_of
from wse_traces.reader.read import Array, Trace


class Content(Result):
    """Contents of a buffer of one PE after a pass, as bytes and as numbers.

    The same bytes are stored twice: as hexadecimal digits in ``hex``, and as numbers of type
    ``dtype`` in ``elements``.
    """

    wafer: Annotated[int, Doc("wafer of the PE")]
    row: Annotated[int, Doc("row of the PE")]
    col: Annotated[int, Doc("column of the PE")]
    buffer: Annotated[str, Doc("name of the buffer")]
    use: Annotated[str, Doc("use of the buffer, such as `weights`")]
    address: Annotated[int, Doc("first byte in the SRAM of the PE", "B")]
    bytes: Annotated[int, Doc("size", "B")]
    dtype: Annotated[str, Doc("type of its elements")]
    shape: Annotated[tuple[int, ...], Doc("length of its only axis, in elements")]
    pass_: Annotated[
        int, Doc("pass in which the bytes were read: after the last step that needs the buffer, or at the end")
    ]
    phase: Annotated[str, Doc("phase of that pass: `prefill`, `decode` or `verify`")]
    since_pass: Annotated[int, Doc("pass since which the bytes have not changed")]
    elements: Annotated[tuple[float | int, ...], Doc("the elements; null: infinite or not a number")]
    hex: Annotated[str, Doc("the bytes, two hexadecimal digits each")]

    def numbers(self) -> Array:
        """Return the elements as a one-dimensional array, with bfloat16 converted to float32."""
        return values_of(np.frombuffer(self.raw(), np.uint8), self.dtype.encode())

    def raw(self) -> bytearray:
        """Return the bytes of the buffer in the order in which they were stored in SRAM."""
        return bytearray.fromhex(self.hex)


class DumpView(View):
    """View of the contents of a PE's SRAM buffer.

    It is the result of ``wse inspect --pe ROW,COL --dump BUFFER``.
    """

    content: Annotated[Content, Doc("the buffer and its contents")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each element with its index, address and value, for output as CSV."""
        content = self.content
        size = content.bytes // max(1, len(content.elements))
        return [
            {"element": index, "address": content.address + index * size, "value": value}
            for index, value in enumerate(content.elements)
        ]


def content_file(content: Content, suffix: str) -> bytes:
    """Return the contents of a buffer in a file format.

    Args:
        content: Contents of the buffer.
        suffix: Suffix of the file name. For ``.npy``, the result is a NumPy file, in which bfloat16
            elements are float32. For any other suffix, it is the raw bytes of the buffer.
    """
    if suffix != ".npy":
        return bytes(content.raw())
    file = io.BytesIO()
    np.save(file, content.numbers(), allow_pickle=False)
    return file.getvalue()


def read_content(trace: Trace, pe: tuple[int, int, int], name: str, pass_index: int | None) -> Content:
    """Read the contents of a PE's SRAM buffer in a pass.

    Args:
        trace: An open trace.
        pe: Wafer, row and column of the PE.
        name: Name of the buffer, either in full or as printed in the SRAM map, or its address, such
            as ``0xb280``.
        pass_index: Index of the pass. None selects the last pass of the trace.

    Raises:
        BadTrace: Nothing was recorded for this PE.
        BadInput: There is no such buffer or pass, or the name is ambiguous.
        TraceError: The trace is damaged.
    """
    columns = trace.table("content")
    pe_rows = np.flatnonzero(
        np.all([columns[key] == at for key, at in zip(("wafer", "row", "col"), pe, strict=True)], 0)
    )
    place = f"{pe[0]}:{pe[1]},{pe[2]}" if trace.header.wafers > 1 else f"{pe[1]},{pe[2]}"
    if not len(pe_rows):
        remedy = f"record them: wse run --record-pe {place} --trace FILE"
        raise BadTrace(f"--dump {name}: {trace.path} has no bytes of the PE {place}; {remedy}")
    buffer = _buffer_named(trace, np.unique(columns["buffer"][pe_rows]), name)
    rows = pe_rows[columns["buffer"][pe_rows] == buffer["index"]]
    last = trace.rows("pass") - 1 if pass_index is None else pass_index
    rows = rows[columns["pass"][rows] <= last]
    if last >= trace.rows("pass") or not len(rows):
        range_text = f"{trace.path} has the passes 0 to {trace.rows('pass') - 1}"
        raise BadInput(f"--pass {last}: nothing of {name} was recorded until then; {range_text}; give another")
    data = trace.content(int(rows[-1]))
    try:
        values = values_of(data, buffer["dtype"].encode())
    except ValueError as error:
        raise BadTrace(
            f"{trace.path}: contents: row {rows[-1]} cannot be read ({error}); make the trace again"
        ) from error
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
    """Return the record of the buffer with a given name or address, including its ``index``.

    Args:
        trace: An open trace.
        buffers: Indices of the buffers to choose from.
        name: Name or address of the buffer.

    Raises:
        BadInput: No buffer, or more than one, has this name or address.
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
        remedy = "an address" if len({record["name"] for record in matches}) == 1 else "a name"
        raise BadInput(f"--dump {name}: there are several: {places}; give {remedy}")
    names = [tile_name(record["name"]) for record in records]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    known_names = ", ".join(dict.fromkeys(re.sub(r"^layers\.\d+\.", "layers.*.", name) for name in names))
    raise BadInput(f"--dump {name}: no such buffer was recorded: {hint}known: {known_names}")


def _address(record: dict[str, Any]) -> str:
    """Return the first byte address of a buffer in a PE's SRAM, as hexadecimal text.

    Args:
        record: Row of the trace's table of buffers.
    """
    return f"{record['address']:#06x}"
