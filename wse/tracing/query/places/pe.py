"""View of one PE: its stage, SRAM, colours, busy cycles and links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np

from wse.errors import BadInput
from wse.reports.result import Doc, Result
from wse.tracing.query.costs.steps import run_cycles
from wse.tracing.query.places.stages import RECTANGLE, covers, layers_of, mesh_of
from wse.tracing.query.view import View
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import DIRECTIONS, USES


class Buffer(Result):
    """Buffer in the SRAM of a PE: its addresses, its use, and the ops that need it.

    Buffers that are never needed at the same time may share addresses.
    """

    address: Annotated[int, Doc("first byte in the SRAM of the PE", "B")]
    bytes: Annotated[int, Doc("size", "B")]
    use: Annotated[str, Doc("use of the buffer, such as `weights`")]
    name: Annotated[str, Doc("name of the buffer, or of the tensors whose tile is in it")]
    dtype: Annotated[str, Doc("type of its elements")]
    live_from: Annotated[str, Doc("first op that needs the buffer, empty: always needed")]
    live_to: Annotated[str, Doc("last op that needs the buffer, empty: always needed")]


class PeSram(Result):
    """Use of a PE's SRAM, and the buffers of the fullest PE of its stage.

    A stage is a part of the model, stored on one region of PEs. A trace records the buffers only
    for the fullest PE of a stage. They are also those of this PE if ``is_fullest`` is True.
    """

    bytes: Annotated[Mapping[str, int], Doc("bytes that each use takes on this PE", "B")]
    is_fullest: Annotated[bool, Doc("whether this PE is as full as the fullest, so that the map applies to it")]
    buffers: Annotated[tuple[Buffer, ...], Doc("buffers of the fullest PE of the stage, sorted by address")]


def read_pe_sram(trace: Trace, stages: Columns, holding: Array, wafer: int, row: int, col: int) -> PeSram | None:
    """Return how the SRAM of a PE is used, or None if it was not recorded.

    Args:
        trace: An open trace.
        stages: Columns of all stages (rectangles of PEs that store some layers).
        holding: Indices of the stages that contain the PE.
        wafer: Wafer of the PE.
        row: Row of the PE.
        col: Column of the PE.
    """
    if not trace.rows("sram/bytes_per_pe"):
        return None
    by_use = trace["sram/bytes_per_pe"][wafer, :, row, col]
    uses = dict(zip(USES, by_use.tolist(), strict=True))
    if not len(holding):
        return PeSram(bytes=uses, is_fullest=True, buffers=())
    stage = trace.column("sram/buffers/stage")
    rows = np.flatnonzero(np.isin(stage, _mapped_stages(stage, stages, holding)))
    buffers = [Buffer.from_record(record) for record in trace.records("buffer", rows)]
    return PeSram(
        bytes=uses,
        is_fullest=bool((stages["stage_bytes"][holding[0]] == by_use).all()),
        buffers=tuple(sorted(buffers, key=lambda buffer: (buffer.address, -buffer.bytes))),
    )


def stages_of(trace: Trace, wafer: int, row: int, col: int) -> Array:
    """Return the indices of the stages whose recorded buffers apply to a PE.

    A stage is a set of layers in a rectangle of PEs. Its buffers are recorded only once, even if it
    spans several wafers.

    Args:
        trace: An open trace.
        wafer: Wafer of the PE.
        row: Row of the PE in the mesh.
        col: Column of the PE in the mesh.

    Returns:
        int64 ``[stage]``; may be empty.
    """
    stages = trace.table("stage")
    holding = np.flatnonzero((stages["wafer"] == wafer) & covers(stages, row, col))
    return _mapped_stages(trace.column("sram/buffers/stage"), stages, holding)


def _mapped_stages(buffer_stage: Array, stages: Columns, holding: Array) -> Array:
    """Return the indices of the stages whose recorded buffers apply to a PE.

    The buffers of a stage that spans several wafers are recorded only for its part on the first
    wafer. For a PE on another wafer, the result is this first part. It has the same layers and the
    same rectangle of PEs.

    Args:
        buffer_stage: int ``[buffer]``: stage of each recorded buffer.
        stages: Columns of all stages, with one row for each wafer that a stage spans.
        holding: Indices of the stages that contain the PE.
    """
    recorded_stages = np.unique(buffer_stage)
    recorded_stages = recorded_stages[(recorded_stages >= 0) & (recorded_stages < len(stages["wafer"]))]
    mapped_stages = np.intersect1d(recorded_stages, holding)
    if len(mapped_stages):
        return mapped_stages
    names = ("first_layer", "last_layer", *RECTANGLE)
    equal = [
        any(all(stages[n][i] == stages[n][j] for n in names) for j in holding.tolist())
        for i in recorded_stages.tolist()
    ]
    return recorded_stages[equal][:1]


_NEIGHBOUR: Final = dict(zip(DIRECTIONS, ((-1, 0), (0, 1), (1, 0), (0, -1)), strict=True))
_OPPOSITE: Final = dict(zip(DIRECTIONS, (2, 3, 0, 1), strict=True))


class PeStage(Result):
    """Stage that a PE belongs to: some layers, and the rectangle of PEs that stores them.

    Rows and columns are counted from the first PE of the mesh.
    """

    index: Annotated[int, Doc("index of the stage")]
    row: Annotated[int, Doc("first row of its rectangle of PEs")]
    col: Annotated[int, Doc("first column of the rectangle")]
    rows: Annotated[int, Doc("number of rows")]
    cols: Annotated[int, Doc("number of columns")]
    layers: Annotated[tuple[int, ...], Doc("first and last layer; empty if it has no layers")]
    first_layer: Annotated[int, Doc("deprecated: the first of `layers`, -1: none")]
    last_layer: Annotated[int, Doc("deprecated: the last of `layers`, -1: none")]


class PeRoute(Result):
    """Colour with a route in the router of a PE, and the pattern that uses it.

    A pattern is a scheme by which words travel along a line of PEs, such as a reduce tree.
    """

    colour: Annotated[int, Doc("number of the colour")]
    pattern: Annotated[str, Doc("pattern that uses it")]
    axis: Annotated[str, Doc("lines of PEs that the pattern runs along: `row`, `col` or `both`")]
    stage: Annotated[int, Doc("stage that uses it, -1: between stages")]


class LinkWords(Result):
    """Words sent between a PE and its neighbour on one side over the run, in both directions."""

    out_words: Annotated[int, Doc("words to the neighbour", "words")]
    in_words: Annotated[int, Doc("words from the neighbour", "words")]


class Pe(Result):
    """Everything that a trace records about one PE.

    Fields are None if their data was not recorded. Busy cycles and words on links, for example, are
    recorded only when a run is complete.
    """

    wafer: Annotated[int, Doc("index of the wafer")]
    row: Annotated[int, Doc("row of the PE")]
    col: Annotated[int, Doc("column of the PE")]
    stage: Annotated[PeStage | None, Doc("stage that it belongs to")] = None
    sram: Annotated[PeSram | None, Doc("SRAM of the PE")] = None
    routes: Annotated[tuple[PeRoute, ...], Doc("colours that are configured in its router, ascending")]
    busy_cycles: Annotated[int | None, Doc("cycles in which the PE computes", "cycles")] = None
    run_cycles: Annotated[int | None, Doc("cycles of the run", "cycles")] = None
    busy_fraction: Annotated[float | None, Doc("`busy_cycles` as a fraction of `run_cycles`")] = None
    links: Annotated[Mapping[str, LinkWords] | None, Doc("words on each side; missing if the wafer has dead PEs")] = (
        None
    )


class PeView(View):
    """View of one PE: its stage, SRAM, colours, busy cycles and links.

    The table of the view has a row for each SRAM buffer.
    """

    pe: Annotated[Pe, Doc("the PE")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each buffer in the SRAM of the PE, for output as CSV."""
        return [buffer.to_dict() for buffer in self.pe.sram.buffers] if self.pe.sram else []


def read_pe(trace: Trace, wafer: int, row: int, col: int) -> Pe:
    """Return everything that a trace records about one PE.

    If the wafer has dead PEs, links are omitted. They are recorded by row and column of the
    physical wafer, which differ from the rows and columns of the mesh that programs see.

    Args:
        trace: An open trace.
        wafer: Wafer of the PE.
        row: Row of the PE in the mesh.
        col: Column of the PE in the mesh.

    Raises:
        BadInput: The trace has no such wafer, or its mesh has no such PE.
        TraceError: The trace is damaged.
    """
    check_pe(trace, wafer, row, col)
    stages = trace.table("stage")
    holding = np.flatnonzero((stages["wafer"] == wafer) & covers(stages, row, col))
    return Pe(
        wafer=wafer,
        row=row,
        col=col,
        stage=_stage(stages, int(holding[0])) if len(holding) else None,
        sram=read_pe_sram(trace, stages, holding, wafer, row, col),
        routes=tuple(_routes(trace, wafer, row, col)),
        **_busy(trace, wafer, row, col),
        links=_links(trace, wafer, row, col),
    )


def check_pe(trace: Trace, wafer: int, row: int, col: int) -> None:
    """Check that a trace has a PE at a given place.

    Args:
        trace: An open trace.
        wafer: Wafer of the PE.
        row: Row of the PE in the mesh.
        col: Column of the PE in the mesh.

    Raises:
        BadInput: The trace has no such wafer, or its mesh has no such PE.
    """
    rows, cols = mesh_of(trace)
    if not 0 <= wafer < trace.header.wafers:
        wafers = "one wafer, 0" if trace.header.wafers == 1 else f"the wafers 0 to {trace.header.wafers - 1}"
        raise BadInput(f"--pe: {trace.path} has no wafer {wafer}; it has {wafers}")
    if not (0 <= row < rows and 0 <= col < cols):
        limits = f"rows 0 to {rows - 1} and columns 0 to {cols - 1}"
        raise BadInput(f"--pe {row},{col}: the mesh of {trace.path} is {rows}x{cols}, with {limits}; give one of those")


def _stage(stages: Columns, index: int) -> PeStage:
    """Return the index, the layers and the rectangle of PEs of a stage."""
    row = {name: int(stages[name][index]) for name in (*RECTANGLE, "first_layer", "last_layer")}
    return PeStage.from_record(row, index=index, layers=layers_of(row))


def _routes(trace: Trace, wafer: int, row: int, col: int) -> list[PeRoute]:
    """Return the colours configured in the router of a PE, each with the pattern that uses it."""
    columns = trace.table("route")
    rows = np.flatnonzero((columns["wafer"] == wafer) & covers(columns, row, col))
    routes = [PeRoute.from_record(record) for record in trace.records("route", rows)]
    return sorted(routes, key=lambda route: (route.colour, route.stage, route.pattern))


def _busy(trace: Trace, wafer: int, row: int, col: int) -> dict[str, Any]:
    """Return how many cycles a PE computes and how long the run is, as fields of ``Pe``.

    The result is empty if busy cycles were not recorded.
    """
    if not trace.rows("pe/busy_cycles"):
        return {}
    busy, cycles = int(trace["pe/busy_cycles"][wafer, row, col]), run_cycles(trace)
    return {"busy_cycles": busy, "run_cycles": cycles, "busy_fraction": busy / cycles if cycles else None}


def _links(trace: Trace, wafer: int, row: int, col: int) -> dict[str, LinkWords] | None:
    """Return the words that a PE sends to and receives from the neighbour on each side.

    The key is the direction, such as ``north``. The result is None if words were not recorded, or
    if the wafer has dead PEs.
    """
    if not trace.rows("links/words") or "defects" in trace.header.options:
        return None
    out = trace["links/words"][wafer, :, row, col].tolist()
    links = {}
    for words, direction in zip(out, DIRECTIONS, strict=True):
        neighbour = row + _NEIGHBOUR[direction][0], col + _NEIGHBOUR[direction][1]
        has_neighbour = 0 <= neighbour[0] < trace.header.rows and 0 <= neighbour[1] < trace.header.cols
        in_words = int(trace["links/words"][wafer, _OPPOSITE[direction], *neighbour]) if has_neighbour else 0
        links[direction] = LinkWords(out_words=int(words), in_words=in_words)
    return links
