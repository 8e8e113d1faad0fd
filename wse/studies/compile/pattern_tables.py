"""Tables of what a Program's patterns cost: where words wait for others, and how reduces compare with the best."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import count, heading, lines, plain_table, show
from wse.studies.compile.reduces import MOST_PES

MOST_REDUCES = 6


def print_contention(console: Console, rows: list[dict[str, Any]]) -> None:
    """Where words wait; nothing where there are no rows."""
    if not rows:
        return
    heading(console, "Contention", "words that wait for others on one link or ramp, in prompt and token")
    table = plain_table(header=True)
    for name in ("phase", "pattern", "along"):
        table.add_column(name, no_wrap=True)
    for name in ("steps", "messages at once", "cycles"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        numbers = (row["steps"], row["messages_on_one_link"], row["cycles"])
        table.add_row(row["phase"], row["pattern"], row["along"], *map(count, numbers))
    show(console, table)


def print_reduces(console: Console, rows: list[dict[str, Any]]) -> None:
    """The most expensive reduces of a token; nothing where there are no rows."""
    if not rows:
        return
    heading(console, "Reduces", "of a generated token, beside their lower bound and the cheapest pattern")
    table = plain_table(header=True)
    for name in ("pattern", "along"):
        table.add_column(name, no_wrap=True)
    for name in ("steps", "PEs", "words", "cycles", "× bound"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("cheapest")
    for row in rows[:MOST_REDUCES]:
        numbers = map(count, (row["steps"], row["pes"], row["words"], row["cycles"]))
        bound = f"{row['times_bound']:.2f}" if "times_bound" in row else ""
        cheapest = f"{count(row['cheapest_cycles'])}: {row['cheapest']}" if "cheapest" in row else "not searched"
        table.add_row(row["pattern"], row["along"], *numbers, bound, cheapest)
    show(console, table)
    if len(rows) > MOST_REDUCES:
        lines(console, [("...", f"and {len(rows) - MOST_REDUCES} more; --json has them all")])
    if any("cheapest" not in row for row in rows[:MOST_REDUCES]):
        text = f"lines of {count(MOST_PES)} PEs in all are, those that take the most cycles first"
        lines(console, [("not searched", text)])
