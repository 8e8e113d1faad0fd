"""Validate places in a trace: ops, stages and their rectangles, and the contents of SRAM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wse_traces.field import ELEMENT_BYTES
from wse_traces.reader.read import Array, Trace
from wse_traces.schema import BY_PATH, RAGGED
from wse_traces.validator.times import first_row, repetitions


def op_problems(trace: Trace) -> Iterator[str]:
    """Yield a message if several ops have the same name."""
    names = trace.column("graph/ops/name")
    for row, times in repetitions(names):
        yield f"graph/ops/name[{row}]: {times} ops are called {names[row].decode()!r}, needed: one"


def edge_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for the first op whose input is its own output."""
    for row in first_row(trace.column("graph/edges/src") == trace.column("graph/edges/dst")):
        yield f"graph/edges/dst[{row}]: the op that produces"


def stage_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each inconsistency in the stages of a trace.

    A stage is a part of the model, stored on one region of PEs. The checks are:

    1. The SRAM uses add up to the same number of bytes per PE in all stages.
    2. The first layer of a stage does not come after its last layer. Both are negative for a stage
       without layers.
    3. On each wafer, no PE belongs to two stages that contain layers.

    A stage without layers is allowed to overlap with others. It contains experts that are
    distributed across all wafers.
    """
    columns = trace.table("stage")
    # 1. SRAM
    totals = columns["stage_bytes"].sum(axis=1)
    if len(set(totals.tolist())) > 1:
        sums = f"{totals.min()} to {totals.max()} B"
        yield f"sram/stage_bytes: the uses add up to {sums}, needed: the same for all stages"
    # 2. Layers
    begin, end = columns["first_layer"], columns["last_layer"]
    for row in first_row((begin > end) | ((begin < 0) != (end < 0))):
        yield f"placement/stages/last_layer[{row}]: {end[row]}, the first is {begin[row]}"
    # 3. Overlaps: mark the corners of each rectangle, so that running sums count the stages of each PE.
    trace.check_size("placement/stages", (BY_PATH["pe/busy_cycles"],), 1)
    rows, cols = trace.header.rows, trace.header.cols
    for wafer in np.unique(columns["wafer"]).tolist():
        on_wafer = (columns["wafer"] == wafer) & (begin >= 0)
        top, west, height, width = (columns[name][on_wafer].astype("<i8") for name in ("row", "col", "rows", "cols"))
        if (top + height > rows).any() or (west + width > cols).any():
            continue  # reported by the check of rectangles
        corners = np.zeros((rows + 1, cols + 1), "<i4")
        for row, col, sign in (
            (top, west, 1),
            (top + height, west, -1),
            (top, west + width, -1),
            (top + height, west + width, 1),
        ):
            np.add.at(corners, (row, col), sign)
        stages = corners.cumsum(axis=0, out=corners).cumsum(axis=1, out=corners)
        if stages.max() > 1:
            pe = ",".join(map(str, np.unravel_index(int(stages.argmax()), stages.shape)))
            yield f"placement/stages/row: {stages.max()} stages hold PE {pe} of wafer {wafer}, needed: one"


def attention_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the records of PE columns that attention uses.

    Each record is for a stage, which is a rectangle of PEs with the layers that it stores.

    1. A stage is listed twice.
    2. The columns are not part of the rectangle of their stage.
    """
    columns, stages = trace.table("attention"), trace.table("stage")
    for row, times in repetitions(columns["stage"]):
        yield f"attention/stage[{row}]: {times} rows are of stage {columns['stage'][row]}, needed: one"
    first, count = columns["col"].astype("<i8"), columns["cols"].astype("<i8")
    west, width = (stages[name][columns["stage"]].astype("<i8") for name in ("col", "cols"))
    for row in first_row((first < west) | (first + count > west + width) | (count < 1)):
        stage_cols = f"{width[row]} from column {west[row]} on"
        yield f"attention/col[{row}]: {count[row]} columns from {first[row]} on, those of its stage are {stage_cols}"


def buffer_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the addresses of SRAM buffers.

    1. A buffer extends beyond the SRAM of a PE. Stages that do not fit in SRAM are not checked.
    2. Two buffers of a stage overlap, although at least one of them is always in use.
    """
    columns, by_use = trace.table("buffer"), trace.column("sram/stage_bytes")
    begin, end = columns["address"].astype("<i8"), columns["address"].astype("<i8") + columns["bytes"]
    sram = np.where(by_use.min(axis=1, initial=0) < 0, 1 << 62, by_use.sum(axis=1))[columns["stage"]]
    for row in first_row(end > sram):
        bytes_used, at = columns["bytes"][row], begin[row]
        yield f"sram/buffers/address[{row}]: {bytes_used} B from {at} leave the SRAM of {sram[row]} B"
    order = np.lexsort((begin, columns["stage"]))
    order = order[columns["bytes"][order] > 0]
    # All stages are checked at once: an offset larger than any address separates them.
    offset = columns["stage"][order].astype("<i8") << 33
    begin, end = begin[order] + offset, end[order] + offset
    is_always_needed = columns["live_from"][order] < 0
    after_any = _furthest_ends(end)
    after_always = _furthest_ends(np.where(is_always_needed, end, 0))
    overlaps = np.where(is_always_needed, after_any, after_always) > begin
    for place in first_row(overlaps):
        row = order[place]
        name = columns["name"][row].decode(errors="replace")
        yield f"sram/buffers/address[{row}]: {name!r} overlaps a buffer of its stage, and one of them is always needed"


def _furthest_ends(ends: Array) -> Array:
    """Return, for each buffer, the highest end address of all buffers before it in the list.

    The result is 0 for the first buffer.
    """
    return np.concatenate([[0], np.maximum.accumulate(ends)])[: len(ends)]


def sram_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each wafer on which the SRAM uses of a PE do not add up to its SRAM size.

    Only the first such PE of a wafer is reported.
    """
    totals = np.unique(trace.column("sram/stage_bytes").sum(axis=1))
    for wafer in range(trace.rows("sram/bytes_per_pe") if len(totals) == 1 else 0):
        plane = trace.column("sram/bytes_per_pe", wafer, wafer + 1)[0].sum(axis=0)
        if (plane != totals[0]).any():
            row, col = np.argwhere(plane != totals[0])[0]
            sums = f"the uses add up to {plane[row, col]} B, needed: {totals[0]} B"
            yield f"sram/bytes_per_pe[{wafer}]: PE {row},{col}: {sums}"


def tensor_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for the first recorded tensor whose bytes do not match its type and shape."""
    columns = trace.table("tensor")
    sizes = np.diff(columns["end"], prepend=0).tolist()
    for row, (name, shape, size) in enumerate(zip(columns["dtype"], columns["shape"].tolist(), sizes, strict=True)):
        item = ELEMENT_BYTES.get(name.decode(errors="replace"), 0)
        needed_bytes = item * int(np.prod(shape, dtype=object))
        if not item or size != needed_bytes:
            size_text = f"{size} B of {name.decode(errors='replace')!r} in shape {tuple(shape)}"
            yield f"tensors/end[{row}]: {size_text}, needed: {f'{needed_bytes} B' if item else 'a type of numbers'}"
            return


def live_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for the first buffer lifetime that ends before it begins."""
    columns = trace.table("live")
    for row in first_row(columns["last_step"] < columns["first_step"]):
        yield f"lives/last_step[{row}]: {columns['last_step'][row]}, needed: at least {columns['first_step'][row]}"


def content_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in recorded buffer contents.

    1. The number of bytes differs from the size of the buffer.
    2. The PE is outside of the mesh.
    """
    columns, header = trace.table("content"), trace.header
    sizes, needed_bytes = np.diff(columns["end"], prepend=0), trace.column("sram/buffers/bytes")[columns["buffer"]]
    for row in first_row(sizes != needed_bytes):
        yield f"contents/end[{row}]: {sizes[row]} B, needed: the {needed_bytes[row]} B of its buffer"
    for name, limit in (("row", header.rows), ("col", header.cols)):
        for row in first_row((columns[name] < 0) | (columns[name] >= limit)):
            yield f"contents/{name}[{row}]: {columns[name][row]}, needed: 0 to {limit - 1}"


def ragged_problems(trace: Trace, ends: str) -> Iterator[str]:
    """Yield a message for each error in a column that says where the parts of another table end.

    The column divides the other table into consecutive parts: each element is the row after the
    last row of a part. The elements must be ascending. The last one must not exceed the number of
    rows, and must equal it in a complete trace.

    Args:
        trace: An open trace.
        ends: Path of the column.
    """
    sliced = next(sliced for _, path, sliced in RAGGED if path == ends)
    stops, rows = trace.column(ends), trace.rows(sliced)
    for row in first_row(np.diff(stops, prepend=0) < 0):
        yield f"{ends}[{row}]: before the end of the row above"
    last = int(stops[-1]) if len(stops) else 0
    if last > rows:
        yield f"{ends}[{len(stops) - 1}]: {last}, needed: at most the {rows} rows of {sliced!r}"
    elif trace.complete and last < rows:
        yield f"{ends}: up to {last}, needed: all {rows} rows of {sliced!r}"
