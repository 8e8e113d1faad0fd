"""Contention in communication patterns: cycles that words wait for words of other messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from wse.backends.fabric.phase_cost import PhaseCost
from wse.program.program import Program
from wse.program.steps import ROWS, Phase
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number


class ContentionResult(Result):
    """Cycles that the words of a communication pattern spend waiting for words of other messages.

    Words wait if two messages need the same link between routers, or the same ramp between a router
    and its PE. Each result is for a phase (such as decode), a pattern and a direction. ``steps``
    and ``cycles`` are totals over the phase, and ``messages_on_one_link`` is a maximum.
    """

    phase: Annotated[str, Doc("`prefill` or `decode`")]
    pattern: Annotated[str, Doc("name of the pattern")]
    along: Annotated[Literal["rows", "columns"], Doc("lines along which it runs")]
    steps: Annotated[int, Doc("steps in which words wait")]
    messages_on_one_link: Annotated[int, Doc("maximum number of messages on one link or ramp at a time")]
    cycles: Annotated[float, Doc("cycles of waiting for other words", "cycles")]


def contention_result(program: Program, costs: Iterable[tuple[Phase, PhaseCost]]) -> tuple[ContentionResult, ...]:
    """Return how long each communication pattern's words wait for words of other messages.

    The pattern with the longest wait comes first. Patterns whose words never wait are left out.

    Args:
        program: The compiled Program.
        costs: Phases with their costs. The results of phases with the same name are added up.
    """
    rows: dict[tuple[str, str, int], ContentionResult] = {}
    for phase, cost in costs:
        for step in np.flatnonzero(cost.contention).tolist():
            pattern, axis = program.patterns[phase.steps.pattern[step]].name, int(phase.steps.axis[step])
            direction: Literal["rows", "columns"] = "rows" if axis == ROWS else "columns"
            key = (phase.name, pattern, axis)
            row = rows.get(key) or ContentionResult(
                phase=phase.name, pattern=pattern, along=direction, steps=0, messages_on_one_link=1, cycles=0.0
            )
            rows[key] = replace(
                row,
                steps=row.steps + 1,
                messages_on_one_link=max(row.messages_on_one_link, int(cost.streams[step])),
                cycles=row.cycles + float(cost.contention[step]),
            )
    return tuple(sorted(rows.values(), key=lambda row: -row.cycles))


def contention_table(rows: Sequence[ContentionResult]) -> Table:
    """Return a table of the cycles that words spend waiting for words of other messages.

    Each row shows one communication pattern in one phase: prefill of the prompts or decoding of a
    token.
    """
    columns = (
        *(Column(key=key, title=key) for key in ("phase", "pattern", "along")),
        number("steps", "steps"),
        number("messages_on_one_link", "messages at once"),
        number("cycles", "cycles"),
    )
    note = "words that wait for others on one link or ramp, in prompt and token"
    return Table(columns=columns, rows=rows, title="Contention", note=note)
