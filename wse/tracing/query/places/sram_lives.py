"""Buffers of a PE over the steps of one token: their addresses and when they are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.errors import BadTrace
from wse.tracing.query.places.pe import stages_of
from wse.tracing.query.view import name_at
from wse_traces.reader.executed_steps import schedule_rows
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import KINDS, PHASES


@dataclass(frozen=True, kw_only=True)
class Band:
    """Buffer of a PE with its address range and the times at which it is needed.

    A plot shows a band as one rectangle for each interval in which the buffer is needed.

    Attributes:
        name: Name of the buffer.
        use: What the buffer is for, such as "weights".
        address: Address of the buffer's first byte.
        bytes: Size in bytes.
        needed: First and last cycle of each interval in which the buffer is needed.
        always: Whether the buffer is needed all the time.
    """

    name: str
    use: str
    address: int
    bytes: int
    needed: tuple[tuple[int, int], ...]
    always: bool


@dataclass(frozen=True, kw_only=True)
class SramLives:
    """Use of a PE's SRAM over time, while a token passes through the layers that the PE stores.

    These layers and their rectangle of PEs are called the PE's stage.

    Attributes:
        phase: Phase of the pass: prefill, decode or verify.
        pass_index: Index of the shown pass. It is the last decode pass or, without decode passes,
            the last pass.
        first_cycle: Start of the first step of the stage, in cycles from the start of the pass.
        last_cycle: End of the stage's last step, without transfers to other wafers or the host.
        ops: Pairs (name of an op, cycle in which its first step starts), in order.
        bands: Buffers, sorted by address.
        sram_bytes: SRAM size of the PE in bytes.
    """

    phase: str
    pass_index: int
    first_cycle: int
    last_cycle: int
    ops: tuple[tuple[str, int], ...]
    bands: tuple[Band, ...]
    sram_bytes: int


def read_sram_lives(trace: Trace, wafer: int, row: int, col: int) -> SramLives:
    """Return when each SRAM buffer of a PE is needed while a token passes through its layers.

    Args:
        trace: An open trace.
        wafer: Wafer of the PE.
        row: Row of the PE in the mesh.
        col: Column of the PE in the mesh.

    Raises:
        BadTrace: The PE stores no part of the model, or no pass or step was recorded for it.
        TraceError: The trace is damaged.
    """
    stages = stages_of(trace, wafer, row, col)
    path = f"--sram-png: {trace.path}"
    if not len(stages):
        raise BadTrace(f"{path}: no region contains the PE {row},{col} of wafer {wafer}; give another")
    if not trace.rows("pass"):
        raise BadTrace(f"{path}: has no pass yet; run further, or make the trace again")
    pass_index, schedule = _last_token(trace)
    phase = int(trace.column("schedules/phase", schedule, schedule + 1)[0])
    first, count = (int(column[schedule]) for column in schedule_rows(trace))
    steps = trace.table("step", first, first + count)
    stage_steps = np.flatnonzero(np.isin(steps["stage"], stages))
    if not len(stage_steps):
        raise BadTrace(f"{path}: the stage of the PE {row},{col} has no steps in pass {pass_index}; give another PE")
    end = steps["start_cycle"] + steps["cycles"]
    on_wafer_steps = stage_steps[steps["kind"][stage_steps] != KINDS.index("cross")]
    return SramLives(
        phase=name_at(PHASES, phase),
        pass_index=pass_index,
        first_cycle=int(steps["start_cycle"][stage_steps].min()),
        last_cycle=int(end[on_wafer_steps if len(on_wafer_steps) else stage_steps].max()),
        ops=_ops(trace, steps, stage_steps),
        bands=_bands(trace, stages, phase, steps["start_cycle"], end),
        sram_bytes=int(trace.column("sram/stage_bytes")[stages[0]].sum()),
    )


def _last_token(trace: Trace) -> tuple[int, int]:
    """Return the indices of the last decode pass and of its schedule (its sequence of steps).

    If there are no decode passes, the last pass of any phase is used.
    """
    schedule = trace.column("passes/schedule")
    phases = trace.column("schedules/phase")[schedule]
    decoded = np.flatnonzero(phases == PHASES.index("decode"))
    last = int(decoded[-1]) if len(decoded) else len(schedule) - 1
    return last, int(schedule[last])


def _ops(trace: Trace, steps: Columns, stage_steps: Array) -> tuple[tuple[str, int], ...]:
    """Return the name of each op, and the cycle in which its first step starts.

    Args:
        trace: An open trace.
        steps: Columns of the steps of a pass.
        stage_steps: Indices of the steps to consider, in order.
    """
    names = trace.texts("graph/ops/name")
    starts: dict[str, int] = {}
    for op, start in zip(steps["op"][stage_steps].tolist(), steps["start_cycle"][stage_steps].tolist(), strict=True):
        starts.setdefault(name_at(names, op), start)
    return tuple(starts.items())


def _bands(trace: Trace, stages: Array, phase: int, start: Array, end: Array) -> tuple[Band, ...]:
    """Return the buffers of some stages, and when a pass needs each buffer.

    Buffers that the pass's phase does not need are omitted. The result is sorted by address.

    Args:
        trace: An open trace.
        stages: Indices of the stages.
        phase: Code of the phase.
        start: int64 ``[step]``: start cycle of each step of the pass.
        end: int64 ``[step]``: end cycle of each step.
    """
    buffers, lives = trace.records("buffer"), trace.table("live")
    is_in_phase = (lives["phase"] == phase) & (lives["first_step"] >= 0) & (lives["last_step"] < len(end))
    bands = []
    for index in np.flatnonzero(np.isin(trace.column("sram/buffers/stage"), stages)).tolist():
        rows = np.flatnonzero(is_in_phase & (lives["buffer"] == index))
        is_always_needed = not buffers[index]["live_from"]
        if not is_always_needed and not len(rows):
            continue
        spans = sorted((int(start[lives["first_step"][at]]), int(end[lives["last_step"][at]])) for at in rows)
        values = {name: buffers[index][name] for name in ("name", "use", "address", "bytes")}
        bands.append(Band(**values, needed=tuple(spans), always=is_always_needed))
    return tuple(sorted(bands, key=lambda band: (band.address, -band.bytes)))
