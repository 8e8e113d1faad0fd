"""Which patterns of a Program have words wait for words of other messages, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wse.fabric.phase_cost import PhaseCost
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import ROWS


def contention_facts(program: Program, costs: Iterable[tuple[Phase, PhaseCost]]) -> list[dict[str, Any]]:
    """By phase and pattern: the most messages on one link or ramp in one window, and the cycles that wait for others.

    The most expensive first; patterns whose words never wait are left out.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for phase, cost in costs:
        for step in np.flatnonzero(cost.contention).tolist():
            pattern = program.patterns[phase.steps.code[step]].name
            key = (phase.name, pattern, "rows" if phase.steps.axis[step] == ROWS else "columns")
            row = found.setdefault(key, {"steps": 0, "messages_on_one_link": 1, "cycles": 0.0})
            row["steps"] += 1
            row["messages_on_one_link"] = max(row["messages_on_one_link"], int(cost.streams[step]))
            row["cycles"] += float(cost.contention[step])
    rows = [{"phase": phase, "pattern": name, "along": along, **row} for (phase, name, along), row in found.items()]
    return sorted(rows, key=lambda row: -row["cycles"])
