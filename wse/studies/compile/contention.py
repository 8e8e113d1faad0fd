"""Contention of patterns: which of a Program's have words wait for words of other messages, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from wse.fabric.phase_cost import PhaseCost
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import ROWS
from wse.report.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class ContentionResult(Result):
    """A pattern of a phase whose words wait for others."""

    phase: Annotated[str, Doc("prefill or decode")]
    pattern: Annotated[str, Doc("name of the pattern")]
    along: Annotated[Literal["rows", "columns"], Doc("lines that it runs along")]
    steps: Annotated[int, Doc("steps in which words wait")]
    messages_on_one_link: Annotated[int, Doc("messages on one link or ramp in one window, at most")]
    cycles: Annotated[float, Doc("waiting for other words", "cycles")]


def contention_result(program: Program, costs: Iterable[tuple[Phase, PhaseCost]]) -> tuple[ContentionResult, ...]:
    """By phase and pattern: the most messages on one link or ramp in one window, and the cycles that wait for others.

    The most expensive first; patterns whose words never wait are left out.
    """
    rows: dict[tuple[str, str, int], ContentionResult] = {}
    for phase, cost in costs:
        for step in np.flatnonzero(cost.contention).tolist():
            pattern, axis = program.patterns[phase.steps.pattern[step]].name, int(phase.steps.axis[step])
            along: Literal["rows", "columns"] = "rows" if axis == ROWS else "columns"
            key = (phase.name, pattern, axis)
            row = rows.get(key) or ContentionResult(
                phase=phase.name, pattern=pattern, along=along, steps=0, messages_on_one_link=1, cycles=0.0
            )
            rows[key] = replace(
                row,
                steps=row.steps + 1,
                messages_on_one_link=max(row.messages_on_one_link, int(cost.streams[step])),
                cycles=row.cycles + float(cost.contention[step]),
            )
    return tuple(sorted(rows.values(), key=lambda row: -row.cycles))
