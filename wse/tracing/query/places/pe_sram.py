"""SRAM of one PE: the bytes of each use, and the buffers of the fullest PE in its stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.places.stages import RECTANGLE, covers
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import USES


@dataclass(frozen=True, kw_only=True)
class Buffer(Result):
    """Buffer in the SRAM of a PE.

    Buffers that are never needed at the same time may share addresses.
    """

    address: Annotated[int, Doc("first byte in the SRAM of the PE", "B")]
    bytes: Annotated[int, Doc("size", "B")]
    use: Annotated[str, Doc("use of the buffer, such as `weights`")]
    name: Annotated[str, Doc("name of the buffer, or of the tensors whose tile is in it")]
    dtype: Annotated[str, Doc("type of its elements")]
    live_from: Annotated[str, Doc("first op that needs the buffer, empty: always needed")]
    live_to: Annotated[str, Doc("last op that needs the buffer, empty: always needed")]


@dataclass(frozen=True, kw_only=True)
class PeSram(Result):
    """Use of a PE's SRAM, and the buffers of the fullest PE in the same stage.

    A trace records the buffers only for the fullest PE of each stage. ``is_fullest`` says whether
    they apply to this PE as well.
    """

    bytes: Annotated[Mapping[str, int], Doc("bytes that each use takes on this PE", "B")]
    is_fullest: Annotated[bool, Doc("whether this PE is as full as the fullest, so that the map applies to it")]
    buffers: Annotated[tuple[Buffer, ...], Doc("buffers of the fullest PE of the stage, sorted by address")]


def read_pe_sram(trace: Trace, stages: Columns, holding: Array, wafer: int, row: int, col: int) -> PeSram | None:
    """Return how the SRAM of a PE is used, or None if it was not recorded.

    Args:
        trace: An open trace.
        stages: Columns of all stages.
        holding: Indices of the stages that the PE belongs to.
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
    """Return the stages whose recorded buffers apply to a PE.

    Buffers of a stage that spans several wafers are recorded only for its first wafer. On other
    wafers, the recorded stage has the same layers and the same rectangle.

    Args:
        buffer_stage: Stage of each recorded buffer.
        stages: Columns of all stages.
        holding: Indices of the stages that the PE belongs to.
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
