"""Print-out of ``wse inspect A --diff B``: differing settings, then changes, the largest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console

from wse.reports.shared_tables import USES
from wse.reports.table import Column, Table
from wse.reports.terminal import count, heading, lines, printable
from wse.reports.terminal_table import print_table
from wse.tracing.print.changes_table import changes_table
from wse.tracing.query.two_traces.changes import Change
from wse.tracing.query.two_traces.diff import NOT_SET, DiffView, Setting

MAX_CHANGES: Final = 10
MAX_NAMES: Final = 8
MAX_VALUE: Final = 60
PHASES: Final = {
    "prefill": "Reading the prompts",
    "decode": "A generated token",
    "verify": "A pass over several tokens of one user",
}
KINDS: Final = {
    "all": "",
    "cause": "by cause",
    "kind of op": "by kind of op",
    "layer": "by layer",
    "op": "by op",
    "traffic": "traffic",
}


def print_diff(console: Console, view: DiffView) -> None:
    """Print how two traces differ in settings, cycles, SRAM and ops."""
    heading(console, "Traces", "the same Program" if view.same_program else "two Programs")
    lines(console, [(side, printable(path)) for side, path in zip(("first", "second"), view.traces, strict=True)])
    print_table(console, _settings_table(view.settings))
    if not view.settings:
        lines(console, [("none", "")])
    for phase, changes in view.changes.items():
        average_text = "all of them together" if phase == "prefill" else "a mean one of each"
        heading(console, PHASES[phase], f"in cycles, {average_text}; the largest change of each kind first")
        _print_changes(console, changes, KINDS)
    heading(console, "SRAM of the fullest PE", "bytes by use that changed")
    if view.sram:
        named_changes = [replace(change, name=USES.get(change.name, change.name)) for change in view.sram]
        _print_changes(console, named_changes, {"sram": ""})
    else:
        lines(console, [("none", "")])
    sides = {"first": view.only.first, "second": view.only.second}
    exclusive_ops = [(f"ops only in the {side}", _names(names)) for side, names in sides.items() if names]
    if exclusive_ops:
        lines(console, [("", ""), *exclusive_ops])


def _settings_table(settings: Sequence[Setting]) -> Table:
    """Return a table of the settings that differ between two traces, with both values."""

    def side(name: str) -> Callable[[Setting], str]:
        """Return a function that formats the value that a setting has in one of the traces."""

        def cell(setting: Setting) -> str:
            """Return the value of the setting as text, truncated to ``MAX_VALUE`` characters."""
            value = getattr(setting, name)
            return "not set" if value is NOT_SET else printable(value)[:MAX_VALUE]

        return cell

    sides = (Column(key=name, title=name, cell=side(name), wraps=True) for name in ("first", "second"))
    return Table(title="Settings", note="that differ", columns=(Column(key="name"), *sides), rows=settings)


def _print_changes(console: Console, changes: Sequence[Change], kinds: Mapping[str, str]) -> None:
    """Print the largest changes between two traces, and the number of remaining changes.

    Args:
        console: Console to print to.
        changes: Changes of all kinds, with the largest of each kind first.
        kinds: Kinds to print, with their headings. At most ``MAX_CHANGES`` changes of each kind are
            printed.
    """
    print_table(console, changes_table(changes, kinds, MAX_CHANGES))
    further_count = sum(max(0, sum(change.kind == kind for change in changes) - MAX_CHANGES) for kind in kinds)
    if further_count:
        lines(console, [(f"and {count(further_count)} more", "--csv FILE or --json: all of them")])


def _names(names: Sequence[str]) -> str:
    """Return the first ``MAX_NAMES`` names as text, followed by the number of remaining names."""
    first = ", ".join(printable(name) for name in names[:MAX_NAMES])
    return f"{first} and {count(len(names) - MAX_NAMES)} more" if len(names) > MAX_NAMES else first
