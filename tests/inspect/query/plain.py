"""Totals of a trace by the plainest means: a loop over passes and their steps, with nothing but h5py."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py

Step = dict[str, Any]


def executed_steps(path: Path) -> list[Step]:
    """Every step that ran, each as often as it did."""
    with h5py.File(path) as file:
        columns = {name: column[()].tolist() for name, column in file["steps"].items()}
        passes = {name: column[()].tolist() for name, column in file["passes"].items()}
        schedules = {name: column[()].tolist() for name, column in file["schedules"].items()}
        shifts = [file[f"shifts/{name}"][()].tolist() for name in ("pass", "step", "words", "hops")]
        sent = {(index, step): (words, hops) for index, step, words, hops in zip(*shifts, strict=True)}
        names = [name.decode() for name in file["graph/ops/name"][()]]
    found = []
    for index, schedule in enumerate(passes["schedule"]):
        first = schedules["first_step"][schedule]
        for row in range(first, first + schedules["steps"][schedule]):
            step = {name: column[row] for name, column in columns.items()}
            words, hops = sent.get((index, row - first), (0, 0))
            step |= {"words": step["words"] + words, "hops": step["hops"] + hops}
            phase = ("prefill", "decode")[schedules["phase"][schedule]]
            op = names[step["op"]] if step["op"] >= 0 else ""
            start = passes["start_cycle"][index] + step["start_cycle"]
            found.append({**step, "phase": phase, "pass": index, "op": op, "start_cycle": start})
    return found


def totals(steps: list[Step], group: Callable[[Step], Any], *names: str) -> dict[Any, tuple[int, ...]]:
    """Sums of columns by group."""
    sums: dict[Any, list[int]] = defaultdict(lambda: [0] * len(names))
    for step in steps:
        for at, name in enumerate(names):
            sums[group(step)][at] += step[name]
    return {key: tuple(found) for key, found in sums.items()}
