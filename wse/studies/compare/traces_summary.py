"""What ``wse compare A.h5 B.h5`` prints: the verdict, both runs under the columns of a comparison, what changed."""

from __future__ import annotations

from typing import Final, TextIO

from wse.inspect.query.compare import TracesResult
from wse.report.changes_table import changes_table
from wse.report.table import Table
from wse.report.terminal import console_on, heading, lines, shown
from wse.report.terminal_table import print_table
from wse.studies.compare.summary import print_text
from wse.studies.compare.tables import detail_tables
from wse.studies.compare.verdict import change_of_runs

CHANGED: Final = {"prefill": "What changed in reading the prompts", "decode": "What changed in a generated token"}


def print_traces(result: TracesResult, stream: TextIO) -> None:
    """Print two runs side by side."""
    console = console_on(stream)
    heading(console, "Runs", "the same Program" if result.same_program else "")
    print_text(console, change_of_runs(*result.rows))
    lines(console, [(str(number), text) for number, text in enumerate(runs(result), start=1)])
    for table in (*detail_tables(result.rows), *changes_tables(result)):
        print_table(console, table)


def changes_tables(result: TracesResult) -> list[Table]:
    """What changed, a table for each phase that both runs have."""
    return [
        changes_table(
            [change.to_dict() for change in changes],
            title=CHANGED[phase],
            note="in cycles; the largest of each kind first",
        )
        for phase, changes in result.changes.items()
    ]


def runs(result: TracesResult) -> list[str]:
    """What each trace is of."""
    return [f"{shown(row.trace)}: {shown(row.model)}, {shown(row.mapping)}" for row in result.rows]
