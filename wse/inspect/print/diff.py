"""What ``wse inspect A --diff B`` prints: settings that differ, then what changed, the largest first."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

from wse.report.changes_table import print_changes
from wse.report.placement_lines import USES
from wse.report.terminal import count, heading, lines, plain_table, show, shown

MOST: Final = 10
MOST_NAMES: Final = 8
MOST_VALUE: Final = 60
PHASES: Final = {"prefill": "Reading the prompts", "decode": "A generated token"}
KINDS: Final = {
    "all": "",
    "cause": "by cause",
    "kind of op": "by kind of op",
    "layer": "by layer",
    "op": "by op",
    "traffic": "traffic",
}


def print_diff(console: Console, facts: dict[str, Any]) -> None:
    """Print the report of two traces."""
    heading(console, "Traces", "the same Program" if facts["same_program"] else "two Programs")
    lines(console, [(side, shown(path)) for side, path in zip(("first", "second"), facts["traces"], strict=True)])
    heading(console, "Settings", "that differ")
    if facts["settings"]:
        _print_settings(console, facts["settings"])
    else:
        lines(console, [("none", "")])
    for phase, changes in facts["changes"].items():
        what = "all of them together" if phase == "prefill" else "a mean one of each"
        heading(console, PHASES[phase], f"in cycles, {what}; the largest change of each kind first")
        _changes(console, changes, KINDS)
    heading(console, "SRAM of the fullest PE", "bytes by use that changed")
    if facts["sram"]:
        _changes(console, [{**row, "name": USES.get(row["name"], row["name"])} for row in facts["sram"]], {"sram": ""})
    else:
        lines(console, [("none", "")])
    only = [(f"ops only in the {side}", _names(names)) for side, names in facts["only"].items() if names]
    if only:
        lines(console, [("", ""), *only])


def _print_settings(console: Console, settings: list[dict[str, Any]]) -> None:
    table = plain_table(header=True)
    for name in ("", "first", "second"):
        table.add_column(name, no_wrap=not name)
    for setting in settings:
        values = (shown(setting[side])[:MOST_VALUE] if side in setting else "not set" for side in ("first", "second"))
        table.add_row(shown(setting["name"]), *values)
    show(console, table)


def _changes(console: Console, changes: list[dict[str, Any]], kinds: dict[str, str]) -> None:
    print_changes(console, changes, kinds, MOST)
    left = sum(max(0, sum(change["kind"] == kind for change in changes) - MOST) for kind in kinds)
    if left:
        lines(console, [(f"and {count(left)} more", "--csv FILE or --json: all of them")])


def _names(names: list[str]) -> str:
    told = ", ".join(shown(name) for name in names[:MOST_NAMES])
    return f"{told} and {count(len(names) - MOST_NAMES)} more" if len(names) > MOST_NAMES else told
