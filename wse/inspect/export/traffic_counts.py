"""Traffic over time: words on the links of each wafer, and the bytes that cross to other wafers and to the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wse.inspect.export.chosen_passes import LATEST_CYCLE, check_range
from wse.inspect.export.events import Count, process_name
from wse_traces.read import Array, Columns, Trace
from wse_traces.schema import HOST

_DECIMALS = 6  # a rate below that is the rest of a sum of floats


def link_counts(steps: Columns) -> Iterator[Count]:
    """Words that enter a link in a cycle, of all links of a wafer: each step's hops, evenly over its cycles.

    ``steps`` are as ``ordered_steps`` gives them. A counter holds until its next value.
    """
    taking = (steps["cycles"] > 0) & (steps["wafer"] >= 0)
    for wafer in np.unique(steps["wafer"][taking & (steps["hops"] > 0)]).tolist():
        mine = taking & (steps["wafer"] == wafer)
        start, cycles = steps["start_cycle"][mine], steps["cycles"][mine]
        rate = steps["hops"][mine] / cycles
        times, values = _levels(np.concatenate([start, start + cycles]), np.concatenate([rate, -rate]))
        for cycle, value in zip(times, values, strict=True):
            yield Count(wafer, "words on links", "word/cycle", cycle, value)


def crossing_counts(trace: Trace, passes: Array) -> Iterator[Count]:
    """Bytes that each pass sends from one wafer to another, or from and to the host, while the pass goes on."""
    table, of_pass = trace.table("crossing"), trace.table("pass")
    length = trace.column("schedules/cycles")
    for name in ("src_wafer", "dst_wafer"):
        check_range(trace, f"crossings/{name}", table[name], trace.header.wafers, start=HOST)
    check_range(trace, "crossings/bytes", table["bytes"], LATEST_CYCLE)
    known = np.isin(table["pass"], passes)
    ways = np.unique(np.stack([table["src_wafer"][known], table["dst_wafer"][known]], axis=1), axis=0)
    for source, target in ways.tolist():
        mine = known & (table["src_wafer"] == source) & (table["dst_wafer"] == target)
        start = of_pass["start_cycle"][table["pass"][mine]]
        end = start + np.maximum(length[of_pass["schedule"][table["pass"][mine]]], 1)
        sent = table["bytes"][mine].astype(float)
        times, values = _levels(np.concatenate([start, end]), np.concatenate([sent, -sent]))
        for cycle, value in zip(times, values, strict=True):
            yield Count(source, f"bytes to {process_name(target)} in a pass", "B", cycle, value)


def _levels(times: Array, changes: Array) -> tuple[list[int], list[float]]:
    """The times at which a sum of changes becomes another, ascending, and what it then is."""
    at, place = np.unique(times, return_inverse=True)
    change = np.zeros(len(at))
    np.add.at(change, place.ravel(), changes)
    level = np.round(np.cumsum(change), _DECIMALS) + 0.0  # no -0
    kept = np.diff(level, prepend=0.0) != 0
    return at[kept].tolist(), level[kept].tolist()
