"""Validate the times in a trace, and the words on its links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wse_traces import schema
from wse_traces.reader.groups import distinct_rows, group_sums, range_sums
from wse_traces.reader.planes import layer_link_words
from wse_traces.reader.read import Trace

ROUNDING_CYCLES = 2  # starts and lengths of estimated passes are whole cycles, each rounded down


def first_row(condition: Any) -> Iterator[int]:
    """Yield the index of the first true element of an array, or nothing if all are false."""
    yield from np.flatnonzero(condition)[:1].tolist()


def repetitions(values: Any) -> Iterator[tuple[int, int]]:
    """Yield the row of a value that occurs more than once, and the number of its occurrences.

    Only the first such value is yielded, or nothing if all values are distinct.

    Args:
        values: Array ``[n]``, or ``[n, k]`` to compare whole rows.
    """
    _, first, times = np.unique(values, axis=0, return_index=True, return_counts=True)
    for at in first_row(times > 1):
        yield int(first[at]), int(times[at])


def step_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for the first step whose cycles are not the sum of its cycles by cause."""
    cycles_by, cycles = trace.column("steps/cycles_by"), trace.column("steps/cycles")
    for row in first_row(cycles_by.sum(axis=1) != cycles):
        yield f"steps/cycles_by[{row}]: the causes add up to {cycles_by[row].sum()}, cycles are {cycles[row]}"


def schedule_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the schedules, the sequences of steps.

    1. A schedule extends beyond the step table.
    2. A schedule does not start where the previous one ends.
    3. In a complete trace, steps at the end of the table belong to no schedule.
    4. The duration of a schedule is shorter than the end of its last step.

    After an error of the first two kinds, the remaining checks are skipped.
    """
    columns, steps = trace.table("schedule"), trace.rows("step")
    begin, count = columns["first_step"], columns["steps"]
    for row in first_row(begin > steps - count):
        yield f"schedules/first_step[{row}]: {count[row]} steps from {begin[row]} of {steps}"
        return
    ends = begin + count
    for row in first_row(begin != np.concatenate([[0], ends[:-1]])[: len(begin)]):
        previous_end = ends[row - 1] if row else 0
        yield f"schedules/first_step[{row}]: {begin[row]}, needed: {previous_end}, where the one above ends"
        return
    if trace.complete and len(ends) and ends[-1] < steps:
        yield f"schedules/steps: {ends[-1]} of the {steps} steps are in schedules, needed: all"
    stops = np.append(trace.column("steps/start_cycle") + trace.column("steps/cycles"), 0)
    has_steps = count > 0
    last = np.zeros(len(count), "<i8")
    if has_steps.any():
        last[has_steps] = np.maximum.reduceat(stops[: ends[-1]], begin[has_steps])
    for row in first_row(last > columns["cycles"]):
        yield f"schedules/cycles[{row}]: {columns['cycles'][row]}, its last step ends in cycle {last[row]}"


def shift_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the records of KV-cache shifts.

    A cache shift moves entries of a KV cache between rows of PEs. A record names a pass and a step
    of the schedule of that pass. Two errors are detected:

    1. The schedule of the pass has no step with that index.
    2. Several records name the same step of the same pass.

    Only the first faulty record of each kind is reported.
    """
    shifts = trace.table("shift")
    steps = trace.column("schedules/steps")[trace.column("passes/schedule")[shifts["pass"]]]
    for row in first_row(shifts["step"] >= steps):
        yield f"shifts/step[{row}]: {shifts['step'][row]}, the schedule of its pass has {steps[row]} steps"
    for row, times in repetitions(np.stack([shifts["pass"], shifts["step"]], axis=1)):
        pass_index, step = shifts["pass"][row], shifts["step"][row]
        yield f"shifts/step[{row}]: step {step} of pass {pass_index} is there {times} times, needed: once"


def token_problems(trace: Trace) -> Iterator[str]:
    """Yield a message for each kind of error in the positions and cycle counts of tokens.

    1. Two tokens of a sequence have the same position.
    2. A prompt token has cycles.
    3. The cycle count of a generated token differs from the time between the end of the previous
       token's pass and the end of its own pass.

    Only the first faulty token of each kind is reported.
    """
    tokens, passes = trace.table("token"), trace.table("pass")
    for row, times in repetitions(np.stack([tokens["sequence"], tokens["position"]], axis=1)):
        sequence, position = tokens["sequence"][row], tokens["position"][row]
        yield f"tokens/position[{row}]: sequence {sequence} has {times} tokens at {position}, needed: one"
    prompt = tokens["is_prompt"] == 1
    for row in first_row(prompt & (tokens["cycles"] != 0)):
        yield f"tokens/cycles[{row}]: {tokens['cycles'][row]} in a prompt, needed: 0"
    ends = passes["start_cycle"] + trace.column("schedules/cycles")[passes["schedule"]]
    rows = np.flatnonzero(~prompt & (tokens["pass"] >= 0))
    rows = rows[np.argsort(tokens["sequence"][rows], kind="stable")]
    token_end, sequence = ends[tokens["pass"][rows]], tokens["sequence"][rows]
    is_same_sequence = np.diff(sequence, prepend=-1) == 0
    previous_end = np.where(is_same_sequence, np.concatenate([[0], token_end[:-1]])[: len(token_end)], 0)
    differs = np.abs(token_end - previous_end - tokens["cycles"][rows]) > ROUNDING_CYCLES
    for at_row in first_row(differs):
        row, interval = rows[at_row], token_end[at_row] - previous_end[at_row]
        cycles = tokens["cycles"][row]
        yield f"tokens/cycles[{row}]: {cycles}, its pass ends {interval} cycles after that of the token before"


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
    """Yield a message for each error in the patterns of a trace.

    A pattern is the number of words on each link of a rectangle of PEs, which several layers share.
    The errors are:

    1. The size of a pattern is negative or exceeds the mesh. Only the first such pattern is
       reported.
    2. A pattern has words outside of its rectangle.
    """
    columns = {name: trace.column(f"links/patterns/{name}") for name in ("rows", "cols")}
    ends = (("rows", trace.header.rows), ("cols", trace.header.cols))
    for name, length in ends:
        for row in first_row((columns[name] < 0) | (columns[name] > length)):
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
        for row in first_row((start < 0) | (start + count > length)):
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

    A hop is a word that crosses one link. Only complete traces with words on links are checked.
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
    for row in first_row(source == target):
        yield f"crossings/dst_wafer[{row}]: {target[row]}, the one that sends"


def expert_problems(trace: Trace) -> Iterator[str]:
    """Yield a message if the tokens per expert of a run are not the sums over its passes.

    Only complete traces that record both numbers are checked.
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
