"""Tables of what a Program's patterns cost: where words wait for others, and how reduces compare with the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from wse.report.table import Column, Table
from wse.report.terminal import count, lines
from wse.report.terminal_table import print_table
from wse.studies.compile.contention import ContentionResult
from wse.studies.compile.reduces import MOST_PES, ReduceResult

MOST_REDUCES = 6


def contention_table(rows: Sequence[ContentionResult]) -> Table:
    """Where words wait."""
    columns = (
        *(Column(key=key, title=key) for key in ("phase", "pattern", "along")),
        _number("steps", "steps", lambda row: count(row.steps)),
        _number("messages_on_one_link", "messages at once", lambda row: count(row.messages_on_one_link)),
        _number("cycles", "cycles", lambda row: count(row.cycles)),
    )
    note = "words that wait for others on one link or ramp, in prompt and token"
    return Table(columns=columns, rows=rows, title="Contention", note=note)


def reduces_table(rows: Sequence[ReduceResult]) -> Table:
    """The most expensive reduces of a token."""
    columns = (
        *(Column(key=key, title=key) for key in ("pattern", "along")),
        _number("steps", "steps", lambda row: count(row.steps)),
        _number("pes", "PEs", lambda row: count(row.pes)),
        _number("words", "words", lambda row: count(row.words)),
        _number("cycles", "cycles", lambda row: count(row.cycles)),
        _number("times_bound", "× bound", lambda row: "" if row.times_bound is None else f"{row.times_bound:.2f}"),
        Column(key="cheapest", title="cheapest", cell=_cheapest, folds=True),
    )
    note = "of a generated token, beside their lower bound and the cheapest pattern"
    return Table(columns=columns, rows=rows[:MOST_REDUCES], title="Reduces", note=note)


def print_contention(console: Console, rows: Sequence[ContentionResult]) -> None:
    """Print where words wait; nothing where there are no rows."""
    if rows:
        print_table(console, contention_table(rows))


def print_reduces(console: Console, rows: Sequence[ReduceResult]) -> None:
    """Print the most expensive reduces of a token; nothing where there are no rows."""
    if not rows:
        return
    print_table(console, reduces_table(rows))
    if len(rows) > MOST_REDUCES:
        lines(console, [("...", f"and {len(rows) - MOST_REDUCES} more; --json has them all")])
    if any(row.cheapest is None for row in rows[:MOST_REDUCES]):
        text = f"lines of {count(MOST_PES)} PEs in all are, those that take the most cycles first"
        lines(console, [("not searched", text)])


def _number(key: str, title: str, cell: Callable[[Any], str]) -> Column:
    return Column(key=key, title=title, cell=cell, numeric=True)


def _cheapest(row: ReduceResult) -> str:
    return "not searched" if row.cheapest_cycles is None else f"{count(row.cheapest_cycles)}: {row.cheapest}"
