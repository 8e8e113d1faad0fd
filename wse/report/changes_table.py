"""A table of what changed between two traces, the largest changes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console

from wse.report.terminal import count, plain_table, short, show, shown

MOST: Final = 12  # changes of a kind that are shown
KINDS: Final = {"all": "", "cause": "by cause", "op": "by op", "traffic": "traffic"}
UNITS: Final = {"cycle": "", "word": "words", "wavelet-hop": "wavelet hops"}  # a heading says it
EXACT_BELOW: Final = 100_000_000
HEADER: Final = ("", "first", "second", "change", "")


def print_changes(
    console: Console, changes: Sequence[dict[str, Any]], kinds: Mapping[str, str] = KINDS, most: int = MOST
) -> None:
    """A table of changes, under a heading that says they are cycles where no other unit stands."""
    table = plain_table(header=True)
    for name in HEADER:
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name), overflow="fold")
    for cells in change_cells(changes, kinds, most):
        table.add_row(*cells)
    show(console, table)


def change_cells(
    changes: Sequence[dict[str, Any]], kinds: Mapping[str, str] = KINDS, most: int = MOST
) -> Iterator[tuple[str, ...]]:
    """The texts of changes under ``HEADER``, the ``most`` largest of each kind, under what the kind is called."""
    for kind, told in kinds.items():
        mine = [change for change in changes if change["kind"] == kind][:most]
        if mine and told:
            yield (told, "", "", "", "")
        for change in mine:
            yield (
                f"{'  ' if told else ''}{shown(change['name'])}",
                _amount(change["first"]),
                _amount(change["second"]),
                f"{'-' if change['change'] < 0 else '+'}{_amount(abs(change['change']))}",
                _relative(change),
            )


def _amount(number: float) -> str:
    """A number in full, unless it is so long that a line had no room for it."""
    return count(number) if number < EXACT_BELOW else short(number)


def _relative(change: dict[str, Any]) -> str:
    """The unit of a change, and the change as a share of what it was."""
    told = [UNITS.get(change["unit"], change["unit"])]
    if "only_in" in change:
        told.append(f"only in the {change['only_in']}")
    elif "fraction" in change:
        told.append(f"{change['fraction']:+.1%}".replace("%", " %"))
    return ", ".join(part for part in told if part)
