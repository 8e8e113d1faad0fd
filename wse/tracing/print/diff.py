"""Output of ``wse inspect A --diff B``: differing settings, then changes, largest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from rich.console import Console

from wse.reports.number_text import count, short_number
from wse.reports.shared_tables import USES
from wse.reports.table import Column, Table
from wse.reports.terminal import heading, lines, printable
from wse.reports.terminal_table import print_table
from wse.tracing.query.costs.folds import equal_layers_text, op_text
from wse.tracing.query.two_traces.changes import LAYER, Change
from wse.tracing.query.two_traces.diff import NOT_SET, DiffView, Setting

MAX_CHANGES: Final = 12
"""Default number of changes of each kind in the table."""
KINDS: Final = {"all": "", "cause": "by cause", "op": "by op", "traffic": "traffic"}
UNITS: Final = {"cycle": "", "word": "words", "wavelet-hop": "wavelet hops"}
"""Displayed names of the units. Cycles have none because the heading names them."""
EXACT_BELOW: Final = 100_000_000


class _Line(NamedTuple):
    """Row in a table of differences between two runs: a change or a group heading."""

    name: str
    change: Change | None = None


def changes_table(
    changes: Sequence[Change],
    kinds: Mapping[str, str] = KINDS,
    max_changes: int = MAX_CHANGES,
    *,
    title: str = "",
    note: str = "",
) -> Table:
    """Return a table of the largest changes between two runs, with a section per kind of change.

    Args:
        changes: Changes of all kinds, with the largest of each kind first.
        kinds: Kinds to show, with their headings. An empty heading is not printed.
        max_changes: Maximum number of changes of each kind.
        title: Title of the table.
        note: Remark after the title.
    """
    columns = (
        Column(key="name", wraps=True),
        Column(key="first", title="first", cell=_cell(lambda change: _amount(change.first)), numeric=True),
        Column(key="second", title="second", cell=_cell(lambda change: _amount(change.second)), numeric=True),
        Column(key="change", title="change", cell=_cell(_difference), numeric=True),
        Column(key="fraction", cell=_cell(_relative), wraps=True),
    )
    return Table(columns=columns, rows=list(_lines(changes, kinds, max_changes)), title=title, note=note)


def _lines(changes: Sequence[Change], kinds: Mapping[str, str], max_changes: int) -> Iterator[_Line]:
    """Yield the rows: for each kind, a heading and up to ``max_changes`` changes.

    Args:
        changes: Changes of all kinds, with the largest of each kind first.
        kinds: Kinds to show, with their headings. An empty heading is not printed.
        max_changes: Maximum number of changes of each kind.
    """
    for kind, text in kinds.items():
        kind_changes = [change for change in changes if change.kind == kind][:max_changes]
        if kind_changes and text:
            yield _Line(text)
        for change in kind_changes:
            yield _Line(f"{'  ' if text else ''}{_name(change)}", change)


def _name(change: Change) -> str:
    """Return the display name of what differs between two runs: an item, some layers, or an op.

    The name of an op is followed by its layers. Layers that differ in the same way share a name.
    """
    if change.layers is None:
        return printable(change.name)
    if change.kind == LAYER:
        return equal_layers_text(change.layers, change.count or 1)
    return op_text(change.name, change.layers, change.count or 1)


def _cell(text: Callable[[Change], str]) -> Callable[[_Line], str]:
    """Convert a function that formats a change to a function that formats a table cell.

    The cell is empty in the heading of a group of changes.
    """
    return lambda line: "" if line.change is None else text(line.change)


def _difference(change: Change) -> str:
    """Format the signed difference between the two runs."""
    return f"{'-' if change.change < 0 else '+'}{_amount(abs(change.change))}"


def _amount(number: float) -> str:
    """Format a number, in abbreviated form if it has more than eight digits."""
    return count(number) if number < EXACT_BELOW else short_number(number)


def _relative(change: Change) -> str:
    """Format the unit and the relative change, such as "words, +3.1 %".

    If only one run has the item, the result names that run instead of a change.
    """
    texts = [UNITS.get(change.unit, change.unit)]
    if change.only_in is not None:
        texts.append(f"only in the {change.only_in}")
    elif change.fraction is not None:
        texts.append(f"{change.fraction:+.1%}".replace("%", " %"))
    return ", ".join(text for text in texts if text)


_DIFF_CHANGES: Final = 10
MAX_NAMES: Final = 8
MAX_VALUE: Final = 60
PHASES: Final = {
    "prefill": "Reading the prompts",
    "decode": "A generated token",
    "verify": "A pass over several tokens of one user",
}
_DIFF_KINDS: Final = {
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
        _print_changes(console, changes, _DIFF_KINDS)
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
        """Return a function that formats a setting's value in trace ``first`` or ``second``."""

        def cell(setting: Setting) -> str:
            """Format the value of the setting, truncated to ``MAX_VALUE`` characters."""
            value = getattr(setting, name)
            return "not set" if value is NOT_SET else printable(value)[:MAX_VALUE]

        return cell

    sides = (Column(key=name, title=name, cell=side(name), wraps=True) for name in ("first", "second"))
    columns = (Column(key="name"), *sides)
    return Table(title="Sizes, options and versions", note="that differ", columns=columns, rows=settings)


def _print_changes(console: Console, changes: Sequence[Change], kinds: Mapping[str, str]) -> None:
    """Print the largest changes between two traces, and the number of remaining changes.

    Args:
        console: Console to print to.
        changes: Changes of all kinds, with the largest of each kind first.
        kinds: Kinds to print, with their headings. At most ``_DIFF_CHANGES`` changes of each kind
            are printed.
    """
    print_table(console, changes_table(changes, kinds, _DIFF_CHANGES))
    further_count = sum(max(0, sum(change.kind == kind for change in changes) - _DIFF_CHANGES) for kind in kinds)
    if further_count:
        lines(console, [(f"and {count(further_count)} more", "--csv FILE or --json: all of them")])


def _names(names: Sequence[str]) -> str:
    """Format the first ``MAX_NAMES`` names, followed by the number of remaining names."""
    first = ", ".join(printable(name) for name in names[:MAX_NAMES])
    return f"{first} and {count(len(names) - MAX_NAMES)} more" if len(names) > MAX_NAMES else first
