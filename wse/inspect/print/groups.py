"""What ``wse inspect --by`` prints: a table of cycles for each phase."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.text import Text

from wse.report.terminal import bar, count, heading, lines, percent, plain_table, several, short, show, shown

MOST: Final = 20
"""Rows of a phase that are shown where nobody said how many."""


def print_groups(console: Console, facts: dict[str, Any], top: int | None) -> None:
    """Print the groups of each phase: of all prompts together, and of a mean generated token."""
    by = facts["by"]
    for phase, of_phase in facts["phases"].items():
        rows = [row for row in facts["groups"] if row["phase"] == phase]
        runs = of_phase["passes"]
        told = several(runs, "chunk" if phase == "prefill" else "pass" if runs == 1 else "passe")
        each = phase == "decode" and by != "token"
        what = "of a mean generated token" if each else "of the whole prompt" if phase == "prefill" else "of each token"
        heading(console, f"{phase.capitalize()} by {by}", f"{told}; cycles {what}")
        most = MOST if top is None else top
        _print_rows(console, by, rows[:most], runs if each else 1)
        if len(rows) > most:
            lines(console, [(f"and {count(len(rows) - most)} more", "--top N: more of them; --csv FILE: all")])


def _print_rows(console: Console, by: str, rows: list[dict[str, Any]], share_out: int) -> None:
    traffic = by != "cause"
    table = plain_table(header=True)
    names = (by, "cycles", "share", "", *(("words", "hops", "mostly") if traffic else ("most of it in",)))
    for name in names:
        right = name in ("cycles", "share", "words", "hops")
        table.add_column(name, justify="right" if right else "left", no_wrap=name not in (by, "most of it in"))
    width = 8 if console.width < 90 else 20
    for row in rows:
        share = bar(row["fraction"], width, str(row.get("cause", "compute")))
        cells: list[str | Text] = [_name(by, row), count(row["cycles"] / share_out), percent(row["fraction"]), share]
        if traffic:
            cells += [short(row["words"] / share_out), short(row["hops"] / share_out), row["mostly"]]
        else:
            cells += [f"{shown(row['most_in'])} {percent(row['most_fraction'])}" if "most_in" in row else ""]
        table.add_row(*cells)
    if rows:
        show(console, table)


def _name(by: str, row: dict[str, Any]) -> str:
    if by == "token":
        last = row["token"] + row["tokens"] - 1
        place = (
            "no token" if row["token"] < 0 else str(row["token"]) if row["tokens"] == 1 else f"{row['token']}-{last}"
        )
        text = f" {shown(row['text'])!r}" if row["tokens"] == 1 and row["text"] else ""
        return f"{place}{text}"
    if by == "layer" and row["layer"] < 0:
        return "outside of the layers"
    if by == "wafer" and row["wafer"] < 0:
        return "the host"
    return shown(row[by]) or "no op"
