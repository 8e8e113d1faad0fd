"""The tree of user errors.

    WseError                what a user can mend: one line, exit 2
    ├── BadInput            a file, an option or a value that cannot be used as given
    │   ├── UnknownName     a name that is not in a known set; says the nearest
    │   ├── BadModel        a model folder, config, checkpoint or tokenizer
    │   ├── BadWafer        a file of a wafer, a GPU or software
    │   ├── BadMesh         a mesh or region size
    │   ├── BadMapping      a mapping file
    │   ├── BadDefects      dead PEs and links, or their rate
    │   ├── BadTrace        a trace file that cannot be read or written
    │   └── BadMeasurements a file of published measurements that cannot be read
    ├── DoesNotFit          the model does not fit the SRAM that it is given
    │   └── TooFewColours   patterns that run together need more colours than a wafer has
    ├── InsufficientMemory  the host has less memory than a run takes
    ├── WorkerLost          a process or a machine of a cluster that ended during a run
    └── Deadlock            transfers that wait for each other and can never finish

    WseBug                  ours: exit 1, with the traceback

Messages say what, where, the value and the remedy, on one line.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Final

_SHORTEST_PART: Final = 3  # letters of a name that is looked for inside of others
_LONGEST_GROUP: Final = 8  # names of a group that are listed to one who named another group


class WseError(Exception):
    """Something that the user can mend. ``str(error)`` is one line."""

    def __str__(self) -> str:
        """Return the message with line breaks and control characters made visible, so that it stays one line."""
        text = super().__str__()
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class BadInput(WseError):
    """A file, an option or a value that cannot be used as given."""


class UnknownName(BadInput):
    """A name that is not one of the known ones."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, where: str = "", listed_by: str = "", meant: str = ""
    ) -> None:
        """``listed_by`` is the command that lists the known names, where they are too many for a line.

        ``meant`` is the known name of the same thing, such as ``wse3`` for ``cs3``. Without it the hint is the known
        name nearest in letters, or the shortest one that contains ``name``.
        """
        self.kind, self.name, self.known = kind, name, _beside(name, sorted(known))
        meant = meant or _nearest(name, self.known)
        hint = f"did you mean {meant!r}? " if meant else ""
        place = f"{where}: " if where else ""
        rest = f"{listed_by} lists them" if listed_by else f"known: {', '.join(_folded(name, self.known))}"
        super().__init__(f"{place}unknown {kind} {name!r}: {hint}{rest}")


def _nearest(name: str, known: list[str]) -> str:
    """Return the known name nearest in letters, else the shortest that has all of this one in it.

    Empty where none does.
    """
    group = len(_group(name)) if all(map(_group, known)) else 0
    by_letters = {known_name[group:].casefold(): known_name for known_name in reversed(known)}
    letters = name[group:].casefold()
    close = difflib.get_close_matches(letters, by_letters, n=1)
    if not close and len(letters) >= _SHORTEST_PART:
        close = sorted((other for other in by_letters if letters in other), key=len)[:1]
    return by_letters[close[0]] if close else ""


def _group(name: str) -> str:
    """Return the prefix of a name's group: ``wafer.`` of ``wafer.clock_hz``, nothing of ``llama-3.1-8b``."""
    group, point, _ = name.rpartition(".")
    return group + point if group.isidentifier() else ""


def _folded(name: str, known: list[str]) -> list[str]:
    """The known names as a line has them: of a group that this one is not of, and that is long, how many it has."""
    sizes = Counter(map(_group, known))
    long = {group for group, size in sizes.items() if group and size > _LONGEST_GROUP and group != _group(name)}
    folds = {other: f"{_group(other)}… ({sizes[_group(other)]})" for other in known if _group(other) in long}
    return list(dict.fromkeys(folds.get(other, other) for other in known))


def _beside(name: str, known: list[str]) -> list[str]:
    """Return the known names of the same group, which alone are near; all of them where there is no such group."""
    return [other for other in known if _group(name) and _group(other) == _group(name)] or known


class BadModel(BadInput):
    """A model folder, config, checkpoint or tokenizer that cannot be used."""


class BadWafer(BadInput):
    """A file of a wafer, a GPU, a software profile or a stack that cannot be used."""


class BadMesh(BadInput):
    """A mesh or region size that cannot be used."""


class BadMapping(BadInput):
    """A mapping file that cannot be used."""


class BadDefects(BadInput):
    """Dead PEs and links, or a rate of them, that cannot be used."""


class BadTrace(BadInput):
    """A trace file that cannot be read or written."""


class BadMeasurements(BadInput):
    """A file of published measurements that cannot be read."""


class DoesNotFit(WseError):
    """The model does not fit the SRAM that it is given."""


class TooFewColours(DoesNotFit):
    """Patterns that run together need more colours than a wafer has to give."""


class InsufficientMemory(WseError):
    """The host has less memory than a run takes."""


class WorkerLost(WseError):
    """A process or a machine of a cluster that ended during a run."""


class Deadlock(WseError):
    """Transfers that wait for each other and can never finish."""


class WseBug(Exception):
    """A bug in wse: never the user's fault."""
