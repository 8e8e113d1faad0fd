"""Validate the words on links in a trace: by layer, pattern, wavelet, and between wafers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wse_traces import schema
from wse_traces.reader.groups import distinct_rows, group_sums, range_sums
from wse_traces.reader.planes import layer_link_words
from wse_traces.reader.read import Trace
from wse_traces.validator.times import first_row, repetitions


def wavelet_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the log of wavelets (32-bit words in the fabric).

    1. A wavelet is outside of the mesh or leaves it.
    2. Two wavelets are on the same link in the same cycle.

    Only the first faulty row of each kind is reported.
    """
    columns = trace.table("wavelet")
    edges = {"row": ("north", "south", trace.header.rows), "col": ("west", "east", trace.header.cols)}
    for name, (*sides, length) in edges.items():
        low, high = (schema.MOVES.index(str(side)) for side in sides)
        place, direction = columns[name], columns["direction"]
        is_outside = (place < 0) | (place >= length)
        is_outside |= (place == 0) & (direction == low) | (place == length - 1) & (direction == high)
        for row in first_row(is_outside):
            yield f"wavelets/{name}[{row}]: it leaves the mesh of {length} from {place[row]}"
    link = np.stack([columns[name] for name in ("pass", "cycle", "wafer", "row", "col", "direction")], axis=1)
    for row, times in repetitions(link):
        yield f"wavelets/cycle[{row}]: {times} wavelets on one link in cycle {columns['cycle'][row]}"


def pattern_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each error in the patterns, the maps of words on links that layers share.

    1. The size of a pattern is negative or exceeds the mesh. Only the first such pattern is
       reported.
    2. A pattern has words outside of its rectangle.
    """
    columns = {name: trace.column(f"links/patterns/{name}") for name in ("rows", "cols")}
    ends = (("rows", trace.header.rows), ("cols", trace.header.cols))
    for name, length in ends:
        is_outside = (columns[name] < 0) | (columns[name] > length)
        for row in first_row(is_outside):
            yield f"links/patterns/{name}[{row}]: {columns[name][row]}, needed: 0 to the {length} of the mesh"
    for row in range(trace.rows("pattern")):
        words = trace.column("links/patterns/words", row, row + 1)[0]
        rows, cols = (max(int(columns[name][row]), 0) for name, _ in ends)
        if words[:, rows:].any() or words[:, :, cols:].any():
            yield f"links/patterns/words[{row}]: words beyond its {rows}x{cols} PEs, needed: 0 there"


def placed_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the records of the words that layers send.

    1. A layer is listed twice on a wafer.
    2. The rectangle of a layer extends beyond the mesh.
    3. In a complete trace, the words of all layers do not add up to the words on links.
    """
    columns = trace.table("placed_layer")
    sizes = [trace.column(f"links/patterns/{name}") for name in ("rows", "cols")]
    for row, times in repetitions(np.stack([columns["layer"], columns["wafer"]], axis=1)):
        layer, wafer = columns["layer"][row], columns["wafer"][row]
        yield f"links/layers/layer[{row}]: layer {layer} is on wafer {wafer} {times} times, needed: once"
    leaves_mesh = False
    for name, size, length in zip(("row", "col"), sizes, (trace.header.rows, trace.header.cols), strict=True):
        start, count = columns[name].astype("<i8"), size[columns["pattern"]]
        is_outside = (start < 0) | (start + count > length)
        for row in first_row(is_outside):
            leaves_mesh = True
            yield f"links/layers/{name}[{row}]: {count[row]} {name}s from {start[row]} leave the mesh of {length}"
    if leaves_mesh or not trace.complete or not trace.rows("placed_layer"):
        return
    for wafer in range(trace.rows("links/words")):
        differs = layer_link_words(trace, wafer=wafer) != trace.column("links/words", wafer, wafer + 1)[0]
        if differs.any():
            yield f"links/words[{wafer}]: not the sum of the layers' words on {int(differs.sum())} links"


def hop_problems(trace: Trace) -> Iterator[str]:
    """Yield a message if the total words on links differ from the total hops of all executed steps.

    Only complete traces with words on links are checked.
    """
    if not trace.complete or not trace.rows("links/words"):
        return
    words = sum(int(trace.column("links/words", wafer, wafer + 1).sum()) for wafer in range(trace.rows("links/words")))
    begin, count = trace.column("schedules/first_step"), trace.column("schedules/steps")
    if (begin > trace.rows("step") - count).any():
        return  # reported by the check of schedules
    execution_counts = np.bincount(trace.column("passes/schedule"), minlength=len(begin))
    schedule_hops = range_sums(trace.column("steps/hops"), begin, begin + count)
    hops = int((schedule_hops * execution_counts).sum() + trace.column("shifts/hops").sum())
    if words != hops:
        yield f"links/words: {words:,} words on all links, the steps that were executed have {hops:,} hops"


def crossing_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for the first transfer from a wafer to itself, or from the host to itself."""
    source, target = trace.column("crossings/src_wafer"), trace.column("crossings/dst_wafer")
    is_same = source == target
    for row in first_row(is_same):
        yield f"crossings/dst_wafer[{row}]: {target[row]}, the one that sends"


def expert_problems(trace: Trace) -> Iterator[str]:
    """Yield a message if the tokens per expert of all passes differ from the totals of the run.

    Only complete traces that record both are checked.
    """
    if not trace.complete or not trace.rows("routed") or not trace.rows("expert_load"):
        return
    sums = []
    for table in ("routed", "expert_load"):
        columns = trace.table(table)
        experts, group = distinct_rows([columns["layer"], columns["expert"]])
        tokens = group_sums(columns["tokens"], group, len(experts)).tolist()
        sums.append({tuple(expert): count for expert, count in zip(experts.tolist(), tokens, strict=True) if count})
    for layer, expert in sorted(sums[0].keys() | sums[1].keys()):
        pass_tokens, run_tokens = (by_expert.get((layer, expert), 0) for by_expert in sums)
        if pass_tokens != run_tokens:
            yield f"experts/tokens: {run_tokens} to expert {expert} of layer {layer}, its passes sent {pass_tokens}"
            return
