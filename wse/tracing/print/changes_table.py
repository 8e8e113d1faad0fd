"""The table of what changed between two runs, the largest changes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from wse.reports.table import Column, Table
from wse.reports.terminal import count, printable, short_number
from wse.tracing.print.folds import equal_layers_text, op_text
from wse.tracing.query.two_traces.changes import LAYER, Change

MOST: Final = 12
"""Changes of a kind that are shown."""
KINDS: Final = {"all": "", "cause": "by cause", "op": "by op", "traffic": "traffic"}
UNITS: Final = {"cycle": "", "word": "words", "wavelet-hop": "wavelet hops"}
"""Units as they are written; a heading says that the others are cycles."""
EXACT_BELOW: Final = 100_000_000


class _Line(NamedTuple):
    """A line of the table: a change, or the heading of a kind of changes."""

    name: str
    change: Change | None = None


def changes_table(
    changes: Sequence[Change], kinds: Mapping[str, str] = KINDS, most: int = MOST, *, title: str = "", note: str = ""
) -> Table:
    """Return the ``most`` largest changes of each kind, below a row with the name of the kind."""
    columns = (
        Column(key="name", wraps=True),
        Column(key="first", title="first", cell=_cell(lambda change: _amount(change.first)), numeric=True),
        Column(key="second", title="second", cell=_cell(lambda change: _amount(change.second)), numeric=True),
        Column(key="change", title="change", cell=_cell(_difference), numeric=True),
        Column(key="fraction", cell=_cell(_relative), wraps=True),
    )
    return Table(columns=columns, rows=list(_lines(changes, kinds, most)), title=title, note=note)


def _lines(changes: Sequence[Change], kinds: Mapping[str, str], most: int) -> Iterator[_Line]:
    for kind, text in kinds.items():
        of_kind = [change for change in changes if change.kind == kind][:most]
        if of_kind and text:
            yield _Line(text)
        for change in of_kind:
            yield _Line(f"{'  ' if text else ''}{_name(change)}", change)


def _name(change: Change) -> str:
    """Return what changed: equal layers, or equal ops with their layers, where several are combined."""
    if change.layers is None:
        return printable(change.name)
    if change.kind == LAYER:
        return equal_layers_text(change.layers, change.count or 1)
    return op_text(change.name, change.layers, change.count or 1)


def _cell(text: Callable[[Change], str]) -> Callable[[_Line], str]:
    """Return the text of a line's change; empty for a heading."""
    return lambda line: "" if line.change is None else text(line.change)


def _difference(change: Change) -> str:
    return f"{'-' if change.change < 0 else '+'}{_amount(abs(change.change))}"


def _amount(number: float) -> str:
    """Return a number in full, or shortened if it is too long for a line."""
    return count(number) if number < EXACT_BELOW else short_number(number)


def _relative(change: Change) -> str:
    """Return the unit of a change, and the relative change."""
    texts = [UNITS.get(change.unit, change.unit)]
    if change.only_in is not None:
        texts.append(f"only in the {change.only_in}")
    elif change.fraction is not None:
        texts.append(f"{change.fraction:+.1%}".replace("%", " %"))
    return ", ".join(text for text in texts if text)
