"""Executed steps as slices of a timeline: a process per wafer and a track per region.

The host is a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wse.reports.as_json import Report
from wse.tracing.export.chosen_passes import LATEST_CYCLE, check_range
from wse.tracing.export.events import Lanes, Slice, Track
from wse.tracing.query.places.stages import layers_text, read_stages
from wse.tracing.query.view import name_at
from wse_traces.reader.executed_steps import executed_steps
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import CAUSES, HOST, KINDS, PHASES

BYTES_PER_WORD = 4
_ROWS_AT_ONCE = 4096
_BOUNDED = ("steps/start_cycle", "steps/cycles", "steps/words", "steps/hops", "shifts/words", "shifts/hops")
_LANES_A_STAGE = 1000  # sort keys reserved for the lanes of a stage


def ordered_steps(trace: Trace, passes: Array) -> Columns:
    """Return the executed steps of some passes, sorted by start time.

    Args:
        trace: Trace that contains the passes.
        passes: Indices of the passes, from ``select_passes``. Their schedules must have steps.

    Returns:
        The columns of ``wse_traces.reader.executed_steps.executed_steps``. Times are in cycles
        since the start of the run.

    Raises:
        BadTrace: A time or an amount of traffic is out of range.
        TraceError: The trace is damaged.
    """
    for path in _BOUNDED:
        check_range(trace, path, trace.column(path), LATEST_CYCLE)
    steps = executed_steps(trace, passes)
    order = np.argsort(steps["start_cycle"], kind="stable")
    return {name: column[order] for name, column in steps.items()}


def step_slices(trace: Trace, steps: Columns) -> Iterator[Slice]:
    """Yield a slice (event with a duration) of the timeline for each step.

    A slice shows the step's traffic and its cycles, broken down by cause. Overlapping steps of a
    region are placed on different lanes. If the host takes part in a wafer's step, the step is
    yielded twice: for the wafer and for the host.

    Args:
        trace: Trace that contains the steps.
        steps: Steps from ``ordered_steps``.
    """
    ops, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    names, stages = trace.texts("strings/names"), _stage_names(trace)
    lanes: dict[tuple[int, int], Lanes] = {}
    tracks: dict[tuple[int, int, int], Track] = {}
    host = CAUSES.index("host")
    for step in _rows(steps):
        op, kernel = name_at(ops, step["op"]), name_at(names, step["name"])
        start, cycles = step["start_cycle"], max(0, step["cycles"])
        attributes = {"op": op, "op_kind": name_at(kinds, step["op"]), "step": kernel, **_facts(step)}
        places = [(max(HOST, step["wafer"]), step["stage"])]
        if step["wafer"] >= 0 and step["cycles_by"][host] > 0:
            places.append((HOST, -1))
        for process, stage in places:
            lane = lanes.setdefault((process, stage), Lanes()).place(start, start + cycles)
            track = tracks.get((process, stage, lane))
            if track is None:
                title = "host" if process == HOST else name_at(stages, stage) or "between regions"
                order = (stage + 1) * _LANES_A_STAGE + lane
                track = Track(process, f"{title} (at once: {lane + 1})" if lane else title, order)
                tracks[process, stage, lane] = track
            name = ": ".join(text for text in (op, kernel) if text) or "step"
            yield Slice(track, name, attributes["kind"], start, cycles, attributes)


def _rows(columns: Columns) -> Iterator[Report]:
    """Yield each row of a table as a dict of plain values, keyed by column name."""
    for start in range(0, len(columns["op"]), _ROWS_AT_ONCE):
        pieces = (column[start : start + _ROWS_AT_ONCE].tolist() for column in columns.values())
        for values in zip(*pieces, strict=True):
            yield dict(zip(columns, values, strict=True))


def _facts(step: Report) -> Report:
    """Return the attributes of a step that viewers show when it is selected.

    These are its place, cycles and traffic. Causes without cycles and traffic without words are
    omitted.
    """
    by = {f"{cause}_cycles": cycles for cause, cycles in zip(CAUSES, step["cycles_by"], strict=True) if cycles}
    traffic = {"words": step["words"], "bytes": BYTES_PER_WORD * step["words"], "wavelet_hops": step["hops"]}
    return {
        "kind": name_at(KINDS, step["kind"]),
        "phase": name_at(PHASES, step["phase"]),
        **({"layer": step["layer"]} if step["layer"] >= 0 else {}),
        "cycles": step["cycles"],
        **by,
        **({name: value for name, value in traffic.items() if step["words"] or step["hops"]}),
        "pes": f"{step['rows']}x{step['cols']} at row {step['row']}, col {step['col']}",
        "pass": step["pass"],
        "kv_slots": step["kv_slots"],
    }


def _stage_names(trace: Trace) -> list[str]:
    """Return the display name of each stage: its index, its layers and its rectangle of PEs."""
    names = []
    for index, stage in enumerate(read_stages(trace)):
        place = f"{stage.rows}x{stage.cols} PEs at row {stage.row}, col {stage.col}"
        names.append(f"stage {index}: {layers_text(stage.first_layer, stage.last_layer)}, {place}")
    return names
