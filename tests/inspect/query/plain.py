"""Reference implementation of totals over a trace: a loop over passes and their steps, with h5py only."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py

Step = dict[str, Any]


def executed_steps(path: Path) -> list[Step]:
    """Return one dictionary per executed step; a step of a schedule occurs once for each pass that uses the schedule.

    Words and hops include the cache shifts of the pass. Additional keys are phase, pass, op (name) and start_cycle
    (from the start of the run).
    """
    with h5py.File(path) as file:
        columns = {name: column[()].tolist() for name, column in file["steps"].items()}
        passes = {name: column[()].tolist() for name, column in file["passes"].items()}
        schedules = {name: column[()].tolist() for name, column in file["schedules"].items()}
        shifts = [file[f"shifts/{name}"][()].tolist() for name in ("pass", "step", "words", "hops")]
        shift_traffic = {(index, step): (words, hops) for index, step, words, hops in zip(*shifts, strict=True)}
        names = [name.decode() for name in file["graph/ops/name"][()]]
    found = []
    for index, schedule in enumerate(passes["schedule"]):
        first = schedules["first_step"][schedule]
        for row in range(first, first + schedules["steps"][schedule]):
            step = {name: column[row] for name, column in columns.items()}
            words, hops = shift_traffic.get((index, row - first), (0, 0))
            step |= {"words": step["words"] + words, "hops": step["hops"] + hops}
            phase = ("prefill", "decode")[schedules["phase"][schedule]]
            op = names[step["op"]] if step["op"] >= 0 else ""
            start = passes["start_cycle"][index] + step["start_cycle"]
            found.append({**step, "phase": phase, "pass": index, "op": op, "start_cycle": start})
    return found


def totals(steps: list[Step], group: Callable[[Step], Any], *names: str) -> dict[Any, tuple[int, ...]]:
    """Return the sums of the columns ``names`` over the steps of each group; ``group`` returns the key of a step."""
    sums: dict[Any, list[int]] = defaultdict(lambda: [0] * len(names))
    for step in steps:
        for column, name in enumerate(names):
            sums[group(step)][column] += step[name]
    return {key: tuple(found) for key, found in sums.items()}
