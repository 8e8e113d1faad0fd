"""Timeline of a run: its passes, tokens, steps and traffic as events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from wse.reports.as_json import Report
from wse.tracing.export.chosen_passes import LATEST_CYCLE, PassSelection, check_range
from wse.tracing.export.events import RUN, Count, Event, Lanes, Slice, Track, process_name
from wse.tracing.export.step_slices import ordered_steps, step_slices
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import HOST, PHASES

LONGEST_NAME: Final = 80  # maximum number of characters in the name of a slice
_LANES_A_USER: Final = 1000  # sort keys reserved for the lanes of a user
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
        lane = lanes.place(start, start + cycles)
        track = Track(RUN, f"passes (at once: {lane + 1})" if lane else "passes", lane)
        attributes = {"pass": index, "cycles": cycles, "kv_slots": int(schedules["kv_slots"][schedule])}
        attributes |= {"schedule": schedule, "wall_s": float(passes["wall_s"][index])}
        yield Slice(track, f"{name} {index}", "pass", start, cycles, attributes)


def _token_slices(trace: Trace, selection: PassSelection) -> Iterator[Slice]:
    """Yield each user's timeline slices: one for reading the prompt and one per generated token.

    No slice starts before the first selected pass. Otherwise, the timeline of a few tokens would
    start with a long wait for the first of them.
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
        title = f"user {user}: {kind} (at once: {lane + 1})" if lane else f"user {user}: {kind}"
        track = Track(RUN, title, (2 * (1 + user) + (not prompt)) * _LANES_A_USER + lane)
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
        times, values = _levels(np.concatenate([start, start + cycles]), np.concatenate([rate, -rate]))
        for cycle, value in zip(times, values, strict=True):
            yield Count(wafer, "words on links", "word/cycle", cycle, value)


def _crossing_counts(trace: Trace, passes: Array) -> Iterator[Count]:
    """Yield counter values for the bytes that passes send between wafers.

    There is a counter for each pair of wafers, or wafer and host, between which bytes are sent. Its
    value is the number of bytes sent by the passes that are running.
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
        sent_bytes = table["bytes"][is_on_route].astype(float)
        times, values = _levels(np.concatenate([start, end]), np.concatenate([sent_bytes, -sent_bytes]))
        for cycle, value in zip(times, values, strict=True):
            yield Count(source, f"bytes to {process_name(target)} in a pass", "B", cycle, value)


def _levels(times: Array, changes: Array) -> tuple[list[int], list[float]]:
    """Return the times at which a running sum changes, and its value from each time onwards.

    Args:
        times: int64 ``[n]``: when each change happens, in any order.
        changes: ``[n]``: amount added at each time.

    Returns:
        The times in ascending order, and the values.
    """
    at, place = np.unique(times, return_inverse=True)
    change = np.zeros(len(at))
    np.add.at(change, place.ravel(), changes)
    level = np.round(np.cumsum(change), _DECIMALS) + 0.0  # avoids -0.0
    is_new = np.diff(level, prepend=0.0) != 0
    return at[is_new].tolist(), level[is_new].tolist()
