"""SramLives: the buffers of a PE over the steps of one token: between which cycles each is needed, and where it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.errors import BadTrace
from wse.tracing.query.places.pe import stages_of
from wse.tracing.query.view import name_at
from wse_traces.executed_steps import schedule_rows
from wse_traces.read import Array, Columns, Trace
from wse_traces.schema import KINDS, PHASES, USES


@dataclass(frozen=True, kw_only=True)
class Band:
    """A buffer as a band in a picture: its addresses, and the cycles during which it is live.

    Attributes:
        name: Its name.
        use: What it is for.
        address: Its first byte.
        bytes: Its size.
        needed: First and last cycle of each stretch in which it is needed.
        always: Whether it is needed all the time.
    """

    name: str
    use: str
    address: int
    bytes: int
    needed: tuple[tuple[int, int], ...]
    always: bool


@dataclass(frozen=True, kw_only=True)
class SramLives:
    """The buffers of a PE while its stage processes a token.

    Attributes:
        phase: The phase of the pass.
        pass_index: The pass: the last decoded token, or where there is none the last of all.
        first_cycle: When the first step of the stage starts, counted from the start of the pass.
        last_cycle: When the last one ends that does not leave the wafer.
        ops: The name of each op in order, and the cycle in which its first step starts.
        bands: The buffers, by address.
        sram_bytes: The SRAM of the PE.
    """

    phase: str
    pass_index: int
    first_cycle: int
    last_cycle: int
    ops: tuple[tuple[str, int], ...]
    bands: tuple[Band, ...]
    sram_bytes: int


def read_sram_lives(trace: Trace, wafer: int, row: int, col: int) -> SramLives:
    """Return the buffers of a PE over the steps of a token.

    Raises:
        BadTrace: no region stores the PE, or nothing ran.
        TraceError: the trace is damaged.
    """
    stages = stages_of(trace, wafer, row, col)
    path = f"--sram-png: {trace.path}"
    if not len(stages):
        message = f"{path}: no region holds the PE {row},{col} of wafer {wafer}; give another"
        raise BadTrace(message)
    if not trace.rows("pass"):
        message = f"{path}: has no pass yet; run further, or make the trace again"
        raise BadTrace(message)
    pass_index, schedule = _last_token(trace)
    phase = int(trace.column("schedules/phase", schedule, schedule + 1)[0])
    first, count = (int(column[schedule]) for column in schedule_rows(trace))
    steps = trace.table("step", first, first + count)
    own = np.flatnonzero(np.isin(steps["stage"], stages))
    if not len(own):
        message = f"{path}: the stage of the PE {row},{col} has no steps in pass {pass_index}; give another PE"
        raise BadTrace(message)
    end = steps["start_cycle"] + steps["cycles"]
    inside = own[steps["kind"][own] != KINDS.index("cross")]
    return SramLives(
        phase=name_at(PHASES, phase),
        pass_index=pass_index,
        first_cycle=int(steps["start_cycle"][own].min()),
        last_cycle=int(end[inside if len(inside) else own].max()),
        ops=_ops(trace, steps, own),
        bands=_bands(trace, stages, phase, steps["start_cycle"], end),
        sram_bytes=int(trace.column("sram/stage_bytes")[stages[0]].sum()),
    )


def _last_token(trace: Trace) -> tuple[int, int]:
    """Return the last decode pass, or the last pass of all, and its sequence of steps."""
    schedule = trace.column("passes/schedule")
    phases = trace.column("schedules/phase")[schedule]
    decoded = np.flatnonzero(phases == PHASES.index("decode"))
    last = int(decoded[-1]) if len(decoded) else len(schedule) - 1
    return last, int(schedule[last])


def _ops(trace: Trace, steps: Columns, own: Array) -> tuple[tuple[str, int], ...]:
    """Return the ops of some steps, each with the first cycle of its first step."""
    names = trace.texts("graph/ops/name")
    starts: dict[str, int] = {}
    for op, start in zip(steps["op"][own].tolist(), steps["start_cycle"][own].tolist(), strict=True):
        starts.setdefault(name_at(names, op), start)
    return tuple(starts.items())


def _bands(trace: Trace, stages: Array, phase: int, start: Array, end: Array) -> tuple[Band, ...]:
    """Return the buffers of stages that are live in a phase with these start and end cycles of steps."""
    buffers, lives = trace.table("buffer"), trace.table("live")
    known = (lives["phase"] == phase) & (lives["first_step"] >= 0) & (lives["last_step"] < len(end))
    bands = []
    for index in np.flatnonzero(np.isin(buffers["stage"], stages)).tolist():
        rows = np.flatnonzero(known & (lives["buffer"] == index))
        always = int(buffers["live_from"][index]) < 0
        if not always and not len(rows):
            continue
        spans = sorted((int(start[lives["first_step"][at]]), int(end[lives["last_step"][at]])) for at in rows)
        band = Band(
            name=buffers["name"][index].decode(errors="replace"),
            use=name_at(USES, int(buffers["use"][index])),
            address=int(buffers["address"][index]),
            bytes=int(buffers["bytes"][index]),
            needed=tuple(spans),
            always=always,
        )
        bands.append(band)
    return tuple(sorted(bands, key=lambda band: (band.address, -band.bytes)))
