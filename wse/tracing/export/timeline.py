"""Timeline of a run: its passes, tokens, executed steps and traffic as events.

Each wafer is a process of the timeline, and so is the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.reports.result import Report
from wse.tracing.export.chosen_passes import LATEST_CYCLE, PassSelection
from wse.tracing.export.perfetto import RUN, Count, Event, Lanes, Slice, Track, process_name
from wse.tracing.query.places.stages import layers_text, read_stages
from wse.tracing.query.view import check_range, name_at
from wse_traces.reader.executed_steps import executed_steps
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import CAUSES, HOST, KINDS, PHASES

BYTES_PER_WORD = 4
_ROWS_AT_ONCE = 4096
_BOUNDED = ("steps/start_cycle", "steps/cycles", "steps/words", "steps/hops", "shifts/words", "shifts/hops")
_LANES_PER_STAGE = 1000  # sort keys reserved for the lanes of a stage


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

    A slice shows the step's traffic and its cycles, broken down by cause. Overlapping steps on
    the same rectangle of PEs are placed on different lanes. If the host takes part in a wafer's
    step, the step is yielded twice: for the wafer and for the host.

    Args:
        trace: Trace that contains the steps.
        steps: Steps from ``ordered_steps``.
    """
    ops, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    names, stages = trace.texts("strings/names"), _stage_names(trace)
    lanes: dict[tuple[int, int], Lanes] = {}
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
            title = "host" if process == HOST else name_at(stages, stage) or "between regions"
            track = Track(process, title, (stage + 1) * _LANES_PER_STAGE).in_lane(lane)
            name = ": ".join(text for text in (op, kernel) if text) or "step"
            yield Slice(track, name, attributes["kind"], start, cycles, attributes)


def _rows(columns: Columns) -> Iterator[Report]:
    """Yield each row of a table as a dict of plain values, keyed by column name."""
    for start in range(0, len(columns["op"]), _ROWS_AT_ONCE):
        pieces = (column[start : start + _ROWS_AT_ONCE].tolist() for column in columns.values())
        for values in zip(*pieces, strict=True):
            yield dict(zip(columns, values, strict=True))


def _facts(step: Report) -> Report:
    """Return the details of a step that timeline viewers show when the step is selected.

    The details are its PEs, cycles and traffic. Causes without cycles and traffic without words are
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
        **(traffic if step["words"] or step["hops"] else {}),
        "pes": f"{step['rows']}x{step['cols']} at row {step['row']}, col {step['col']}",
        "pass": step["pass"],
        "kv_slots": step["kv_slots"],
    }


def _stage_names(trace: Trace) -> list[str]:
    """Return the display name of each stage: its index, its layers and its rectangle of PEs."""
    return [
        f"stage {index}: {layers_text(stage.first_layer, stage.last_layer)}, "
        f"{stage.rows}x{stage.cols} PEs at row {stage.row}, col {stage.col}"
        for index, stage in enumerate(read_stages(trace))
    ]


LONGEST_NAME: Final = 80  # maximum number of characters in the name of a slice
_LANES_PER_USER: Final = 1000  # sort keys reserved for the lanes of a user
_DECIMALS: Final = 6  # smaller rates are rounding errors of sums


def timeline(trace: Trace, selection: PassSelection) -> Iterator[Event]:
    """Yield the timeline events of some passes and tokens.

    The events are grouped: passes, tokens, steps, words on links, and bytes between wafers.

    Args:
        trace: Trace of a run or estimate.
        selection: Passes and tokens to show.

    Raises:
        BadTrace: A time or an amount of traffic is out of range.
        TraceError: The trace is damaged.
    """
    steps = ordered_steps(trace, selection.passes)
    yield from _pass_slices(trace, selection)
    yield from _token_slices(trace, selection)
    yield from step_slices(trace, steps)
    yield from _link_counts(steps)
    yield from _crossing_counts(trace, selection.passes)


def _pass_slices(trace: Trace, selection: PassSelection) -> Iterator[Slice]:
    """Yield a timeline slice for each selected pass. Overlapping passes are on different lanes."""
    passes, schedules, lanes = trace.table("pass"), trace.table("schedule"), Lanes()
    for index in selection.passes.tolist():
        schedule, start = int(passes["schedule"][index]), int(passes["start_cycle"][index])
        cycles, phase = max(0, int(schedules["cycles"][schedule])), int(schedules["phase"][schedule])
        name = PHASES[phase] if phase < len(PHASES) else ""
        track = Track(RUN, "passes", 0).in_lane(lanes.place(start, start + cycles))
        attributes = {"pass": index, "cycles": cycles, "kv_slots": int(schedules["kv_slots"][schedule])}
        attributes |= {"schedule": schedule, "wall_s": float(passes["wall_s"][index])}
        yield Slice(track, f"{name} {index}", "pass", start, cycles, attributes)


def _token_slices(trace: Trace, selection: PassSelection) -> Iterator[Slice]:
    """Yield each user's timeline slices: one for prefill and one per generated token.

    A timeline may show only a few tokens. No slice starts before the first pass of these tokens, so
    that the timeline does not begin with a long wait.
    """
    tokens, texts = trace.table("token"), trace.token_bytes()
    check_range(trace, "tokens/cycles", tokens["cycles"], LATEST_CYCLE)
    passes, schedules = trace.table("pass"), trace.table("schedule")
    begin = int(passes["start_cycle"][selection.passes].min(initial=1 << 62))
    read: dict[tuple[int, int], list[int]] = {}
    slices: list[tuple[int, int, int, bool, list[int]]] = []
    for row in selection.tokens.tolist():
        user, index = int(tokens["sequence"][row]), int(tokens["pass"][row])
        if tokens["is_prompt"][row]:
            read.setdefault((user, index), []).append(row)
        else:
            end = int(passes["start_cycle"][index] + schedules["cycles"][passes["schedule"][index]])
            start = end - max(0, int(tokens["cycles"][row]))
            slices.append((min(end, max(begin, start)), end, user, False, [row]))
    for (user, index), rows in read.items():
        start, cycles = int(passes["start_cycle"][index]), int(schedules["cycles"][passes["schedule"][index]])
        slices.append((start, start + max(0, cycles), user, True, rows))
    lanes: dict[tuple[int, bool], Lanes] = {}
    for start, end, user, prompt, rows in sorted(slices):
        kind = "prompt" if prompt else "tokens"
        lane = lanes.setdefault((user, prompt), Lanes()).place(start, end)
        track = Track(RUN, f"user {user}: {kind}", (2 * (1 + user) + (not prompt)) * _LANES_PER_USER).in_lane(lane)
        text = b"".join(texts[row] for row in rows).decode(errors="replace")
        is_single = len(rows) == 1
        attributes: Report = {"token": rows[0]} if is_single else {"first_token": rows[0], "last_token": rows[-1]}
        attributes |= {"position": int(tokens["position"][rows[0]]), "text": text}
        if is_single and tokens["id"][rows[0]] >= 0:
            attributes["id"] = int(tokens["id"][rows[0]])
        if not prompt:
            attributes |= {"cycles": int(tokens["cycles"][rows[0]]), "wall_s": float(tokens["wall_s"][rows[0]])}
        name = (
            repr(text[:LONGEST_NAME])
            if text
            else f"token {rows[0]}"
            if is_single
            else f"tokens {rows[0]} to {rows[-1]}"
        )
        yield Slice(track, name, "prompt" if prompt else "token", start, end - start, attributes)


def _link_counts(steps: Columns) -> Iterator[Count]:
    """Yield counter values for each wafer: the number of words per cycle on all of its links.

    The hops of a step are assumed to be spread evenly over its cycles.

    Args:
        steps: Executed steps, as returned by ``ordered_steps``.
    """
    has_duration = (steps["cycles"] > 0) & (steps["wafer"] >= 0)
    for wafer in np.unique(steps["wafer"][has_duration & (steps["hops"] > 0)]).tolist():
        is_on_wafer = has_duration & (steps["wafer"] == wafer)
        start, cycles = steps["start_cycle"][is_on_wafer], steps["cycles"][is_on_wafer]
        rate = steps["hops"][is_on_wafer] / cycles
        levels = _levels(start, start + cycles, rate)
        yield from (Count(wafer, "words on links", "word/cycle", cycle, value) for cycle, value in levels)


def _crossing_counts(trace: Trace, passes: Array) -> Iterator[Count]:
    """Yield counter values of the bytes that the running passes send between wafers.

    There is a counter for each pair of wafers, or of a wafer and the host, between which bytes are
    sent. A value is the number of bytes that the passes running at this time send in total.
    """
    table, pass_table = trace.table("crossing"), trace.table("pass")
    length = trace.column("schedules/cycles")
    for name in ("src_wafer", "dst_wafer"):
        check_range(trace, f"crossings/{name}", table[name], trace.header.wafers, start=HOST)
    check_range(trace, "crossings/bytes", table["bytes"], LATEST_CYCLE)
    in_passes = np.isin(table["pass"], passes)
    routes = np.unique(np.stack([table["src_wafer"][in_passes], table["dst_wafer"][in_passes]], axis=1), axis=0)
    for source, target in routes.tolist():
        is_on_route = in_passes & (table["src_wafer"] == source) & (table["dst_wafer"] == target)
        start = pass_table["start_cycle"][table["pass"][is_on_route]]
        end = start + np.maximum(length[pass_table["schedule"][table["pass"][is_on_route]]], 1)
        levels, name = _levels(start, end, table["bytes"][is_on_route]), f"bytes to {process_name(target)} in a pass"
        yield from (Count(source, name, "B", cycle, value) for cycle, value in levels)


def _levels(start: Array, end: Array, amounts: Array) -> Iterator[tuple[int, float]]:
    """Yield the times at which a sum of amounts changes, in ascending order, and its new value.

    Args:
        start: int64 ``[n]``: time from which each amount is part of the sum, in any order.
        end: int64 ``[n]``: time until which it is part of the sum.
        amounts: The amounts ``[n]``.
    """
    at, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.zeros(len(at))
    np.add.at(change, place.ravel(), np.concatenate([amounts, -amounts]))
    level = np.round(np.cumsum(change), _DECIMALS) + 0.0  # avoids -0.0
    is_new = np.diff(level, prepend=0.0) != 0
    yield from zip(at[is_new].tolist(), level[is_new].tolist(), strict=True)
