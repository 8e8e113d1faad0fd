"""The exceptions of wse, as a tree.

    WseError                an error that the user can fix: printed as one line, exit status 2
    ├── BadInput            a file, an option or a value that cannot be used as given
    │   ├── UnknownName     a name outside the known set; the message suggests the nearest one
    │   ├── BadModel        a model folder, config, checkpoint or tokenizer
    │   ├── BadWafer        a file that describes a wafer, a GPU or software
    │   ├── BadMesh         a mesh or region size
    │   ├── BadMapping      a mapping file
    │   ├── BadDefects      dead PEs and links, or their rate
    │   ├── BadTrace        a trace file that cannot be read or written
    │   └── BadMeasurements a file of published measurements that cannot be read
    ├── DoesNotFit          the model needs more SRAM than it is given
    │   └── TooFewColours   patterns that run together need more colours than a wafer has
    ├── InsufficientMemory  the host has less memory than a run needs
    ├── WorkerLost          a worker process, or a machine of a cluster, stopped during a run
    └── Deadlock            transfers that wait for each other and can never finish

    WseBug                  a fault in wse itself: exit status 1, with the traceback

Messages are one line each: what is wrong, where, with which value, and what to do.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Final

_SHORTEST_PART: Final = 3  # minimum length of a name that is searched for inside known names
_LONGEST_GROUP: Final = 8  # maximum size of a group whose names are listed for a name of another group
_LONGEST_SHOWN: Final = 120  # maximum characters of an unknown name in a message


class WseError(Exception):
    """Base class of the errors that a user can fix; ``str(error)`` is a single line."""

    def __str__(self) -> str:
        """Return the message as one line, with line breaks and control characters escaped."""
        text = super().__str__()
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class BadInput(WseError):
    """Error for a file, an option or a value that cannot be used as given."""


class UnknownName(BadInput):
    """Error for an unknown name. The message suggests a similar known name."""

    def __init__(
        self,
        kind: str,
        name: str,
        known_names: Iterable[str],
        *,
        place: str = "",
        listed_by: str = "",
        note: str = "",
        suggested_name: str = "",
        remedy: str = "",
    ) -> None:
        """Build the message from the unknown name and the known names.

        The message suggests ``suggested_name`` if specified, or else the known name that
        `_nearest_name` finds.

        Args:
            kind: Kind of thing that is named, such as "pattern".
            name: The unknown name.
            known_names: The known names.
            place: File, option or key that contains the name, for the start of the message.
            listed_by: Command that lists the known names, if there are too many for one line.
            note: Text after the known names or the command that lists them.
            suggested_name: Known name of the same thing, such as ``wse3`` for ``cs3``.
            remedy: What the message says instead of a suggestion and the known names.
        """
        self.kind, self.name, self.known = kind, name, _group_members(name, sorted(known_names))
        suggested_name = suggested_name or _nearest_name(name, self.known)
        hint = f"did you mean {suggested_name!r}? " if suggested_name and not remedy else ""
        prefix = f"{place}: " if place else ""
        rest = f"{listed_by} lists the known ones" if listed_by else f"known: {', '.join(_folded(name, self.known))}"
        rest = remedy or f"{rest}{note}"
        shown_name = name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "…"
        super().__init__(f"{prefix}unknown {kind} {shown_name!r}: {hint}{rest}")


def _nearest_name(name: str, names: list[str]) -> str:
    """Return the known name that is most similar to an unknown one, or "" if no name is similar.

    If a known name and a hyphen are the beginning of the unknown name, only names with this
    beginning are considered, and otherwise all. The most similar spelling is chosen, or else the
    beginning itself, or else the shortest name that contains the unknown one. Case is ignored. A
    prefix such as ``wafer.`` is not compared if all known names have one.
    """
    prefix_length = len(_group(name)) if all(map(_group, names)) else 0
    by_letters = {known_name[prefix_length:].casefold(): known_name for known_name in reversed(names)}
    letters = name[prefix_length:].casefold()
    beginnings = sorted((candidate for candidate in by_letters if letters.startswith(f"{candidate}-")), key=len)
    longer_names = [candidate for candidate in by_letters if beginnings and candidate.startswith(beginnings[-1])]
    close_matches = difflib.get_close_matches(letters, longer_names or by_letters, n=1) or beginnings[-1:]
    if not close_matches and len(letters) >= _SHORTEST_PART:
        close_matches = sorted((candidate for candidate in by_letters if letters in candidate), key=len)[:1]
    return by_letters[close_matches[0]] if close_matches else ""


def _group(name: str) -> str:
    """Return the prefix that a name shares with related names: ``wafer.`` for ``wafer.clock_hz``.

    The prefix is empty if the text before the last dot is not an identifier, as in
    ``llama-3.1-8b``.
    """
    group, point, _ = name.rpartition(".")
    return group + point if group.isidentifier() else ""


def _folded(name: str, names: list[str]) -> list[str]:
    """Return the known names for an error message, with large groups abbreviated.

    A group consists of the names with the same prefix. If it has more than eight names, it is
    replaced by its prefix and its size, ``wafer.… (31)``. The group of the unknown name itself is
    listed in full.
    """
    sizes = Counter(map(_group, names))
    long_groups = {group for group, size in sizes.items() if group and size > _LONGEST_GROUP and group != _group(name)}
    abbreviations = {
        known_name: f"{_group(known_name)}… ({sizes[_group(known_name)]})"
        for known_name in names
        if _group(known_name) in long_groups
    }
    return list(dict.fromkeys(abbreviations.get(known_name, known_name) for known_name in names))


def _group_members(name: str, names: list[str]) -> list[str]:
    """Return the known names with the same prefix as an unknown name, or else all known names.

    The prefix ends with the last dot, as in ``wafer.clock_hz``.
    """
    return [other_name for other_name in names if _group(name) and _group(other_name) == _group(name)] or names


class BadModel(BadInput):
    """Error for a model folder, config, checkpoint or tokenizer that cannot be used."""


class BadWafer(BadInput):
    """Error for a wafer, GPU, software profile or serving stack file that cannot be used."""


class BadMesh(BadInput):
    """Error for a mesh or region size that cannot be used."""


class BadMapping(BadInput):
    """Error for a mapping file (a list of regions of PEs) that cannot be used."""


class BadDefects(BadInput):
    """Error for a file or a rate of dead PEs and links that cannot be used."""


class BadTrace(BadInput):
    """Error for a trace file that cannot be read or written."""


class BadMeasurements(BadInput):
    """Error for a file of published measurements that cannot be read."""


class DoesNotFit(WseError):
    """Error for a model that needs more memory than its wafers or GPUs have."""


class TooFewColours(DoesNotFit):
    """Error for simultaneous patterns that need more colours than a wafer has."""


class InsufficientMemory(WseError):
    """Error for a run that needs more memory than the host has."""


class WorkerLost(WseError):
    """Error raised if a worker process, or a machine of a cluster, stops during a run."""


class Deadlock(WseError):
    """Error for transfers that wait for each other and can never finish."""


class WseBug(Exception):
    """Error that reports a fault in wse itself, never one caused by the user's input."""
