"""The table of a view of ``wse inspect`` as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from wse.errors import BadInput
from wse.report.rows_csv import as_csv

Row = dict[str, Any]


def check_csv(view: str) -> None:
    """Raise BadInput for a view that is no table."""
    if view not in _ROWS:
        views = ", ".join(f"--{each}" for each in _ROWS)
        message = f"--csv: the summary is no table; give one of {views} besides, or --json"
        raise BadInput(message)


def view_as_csv(facts: Row) -> str:
    """The rows of a view; the columns are those of ``--json``, with what is inside a cell after an underscore."""
    rows = [dict(_flat(row)) for row in _ROWS[facts["view"]](facts)]
    columns = dict.fromkeys(name for row in rows for name in row)
    return as_csv(rows, list(columns))


def _flat(row: Row, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}_")
        elif isinstance(value, list):
            yield f"{before}{name}", " ".join(_inside(each) for each in value)
        else:
            yield f"{before}{name}", value


def _inside(value: Any) -> str:
    """An element of a list in a cell: numbers with a colon between where it has several."""
    return ":".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _tree(facts: Row) -> list[Row]:
    return [{"layer": node["layer"], **op} for node in facts["tree"] for op in node["ops"]]


def _changes(facts: Row) -> list[Row]:
    settings = [{"phase": "", "kind": "setting", **setting} for setting in facts["settings"]]
    by_phase = [{"phase": phase, **row} for phase, rows in facts["changes"].items() for row in rows]
    return [*by_phase, *({"phase": "", **row} for row in facts["sram"]), *settings]


_ROWS: Final[dict[str, Callable[[Row], list[Row]]]] = {
    "steps": lambda facts: facts["steps"],
    "by": lambda facts: facts["groups"],
    "links": lambda facts: facts["links"],
    "pe": lambda facts: facts["pe"].get("sram", {}).get("buffers", []),
    "tokens": lambda facts: facts["tokens"],
    "tree": _tree,
    "cycles": lambda facts: facts["wavelets"]["replayed"],
    "tensors": lambda facts: facts["tensors"],
    "diff": _changes,
    "check": lambda facts: [{"problem": problem} for problem in facts["problems"]],
}
