"""A table of what changed between two traces, the largest changes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wse.report.table import Column, Table
from wse.report.terminal import count, short, shown

MOST: Final = 12
"""Changes of a kind that are shown."""
KINDS: Final = {"all": "", "cause": "by cause", "op": "by op", "traffic": "traffic"}
UNITS: Final = {"cycle": "", "word": "words", "wavelet-hop": "wavelet hops"}
"""Units as they are written; a heading says that the others are cycles."""
EXACT_BELOW: Final = 100_000_000

Change = Mapping[str, Any]


def changes_table(
    changes: Sequence[Change], kinds: Mapping[str, str] = KINDS, most: int = MOST, *, title: str = "", note: str = ""
) -> Table:
    """The ``most`` largest changes of each kind, below a row with what the kind is called."""
    columns = (
        Column(key="name", cell=_name, folds=True),
        Column(key="first", title="first", cell=lambda change: _number(change, "first"), numeric=True),
        Column(key="second", title="second", cell=lambda change: _number(change, "second"), numeric=True),
        Column(key="change", title="change", cell=_change, numeric=True),
        Column(key="fraction", cell=_relative, folds=True),
    )
    return Table(columns=columns, rows=list(_rows(changes, kinds, most)), title=title, note=note)


def _rows(changes: Sequence[Change], kinds: Mapping[str, str], most: int) -> Iterator[Change]:
    for kind, text in kinds.items():
        of_kind = [change for change in changes if change["kind"] == kind][:most]
        if of_kind and text:
            yield {"heading": text}
        for change in of_kind:
            yield {**change, "indent": "  " if text else ""}


def _name(change: Change) -> str:
    return change.get("heading") or f"{change['indent']}{shown(change['name'])}"


def _number(change: Change, key: str) -> str:
    return _amount(change[key]) if key in change else ""


def _change(change: Change) -> str:
    if "change" not in change:
        return ""
    return f"{'-' if change['change'] < 0 else '+'}{_amount(abs(change['change']))}"


def _amount(number: float) -> str:
    """A number in full, unless it is so long that a line had no room for it."""
    return count(number) if number < EXACT_BELOW else short(number)


def _relative(change: Change) -> str:
    """The unit of a change, and the change as a share of what it was."""
    if "unit" not in change:
        return ""
    texts = [UNITS.get(change["unit"], change["unit"])]
    if "only_in" in change:
        texts.append(f"only in the {change['only_in']}")
    elif "fraction" in change:
        texts.append(f"{change['fraction']:+.1%}".replace("%", " %"))
    return ", ".join(text for text in texts if text)
