"""Reader of the free text in which measurements name a collective and its algorithm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.measured.measurements import Measurement

_COLLECTIVES: Final = {
    "reduce": "reduce",
    "broadcast": "broadcast",
    "multicast": "broadcast",
    "allreduce": "all_reduce",
}
_NAMES: Final = (
    ("auto_gen", re.compile(r"\bauto[-_ ]?gen")),
    ("k_tree", re.compile(r"\b(k|2-level|two-level)[-_ ]?tree")),
    ("two_way", re.compile(r"\btwo-way chain")),
    ("two_phase", re.compile(r"\btwo[-_ ]phase\b")),
    ("snake", re.compile(r"\bsnake\b")),
    ("ring", re.compile(r"\bring\b")),
    ("binary_tree", re.compile(r"\btree\b")),
    ("star", re.compile(r"\bstar\b")),
    ("chain", re.compile(r"\b(chain|pipeline)\b")),
    ("flooding", re.compile(r"\b(flood|multicast)")),
)
"""Algorithms and the words that identify them. The first match is used: ``snake chain`` is a
snake."""

_GROUP: Final = re.compile(r"\bs\s*=\s*([0-9]{1,5})\b")
_LEVELS: Final = re.compile(r"\bk\s*=\s*([0-9])\b")
_GROUP_COUNT: Final = re.compile(r"\b(?:g|groups?|group_num)\s*=\s*([0-9]{1,5})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """The collective operation (reduce, broadcast or all-reduce) whose time was measured.

    Attributes:
        kind: ``reduce``, ``broadcast`` or ``all_reduce``.
        algorithm: Name of the algorithm in the models. Empty if the source names no modelled
            algorithm.
        group: PEs per group in a two-phase reduce. None for the square root of the number of PEs on
            the line.
        groups: Number of groups of a two-level K-tree. None for the number with the fewest relays.
        levels: Number of levels of a K-tree, which is its K. None if not stated.
    """

    kind: str
    algorithm: str
    group: int | None
    groups: int | None
    levels: int | None


def collective_of(m: Measurement) -> Collective | None:
    """Return the measured collective, or None if the kernel is not a collective.

    The algorithm and its group sizes are read from free text.
    """
    kind = _COLLECTIVES.get(re.sub(r"^2d|[\s_-]", "", m.text("kernel").lower()))
    if kind is None:
        return None
    text = m.text("algorithm").lower()
    algorithm = next((name for name, words in _NAMES if words.search(text)), "")
    texts = f"{text} {m.text('note').lower()}"
    group, groups, levels = _GROUP.search(text), _GROUP_COUNT.search(texts), _LEVELS.search(text)
    return Collective(
        kind=kind,
        algorithm=algorithm,
        group=int(group[1]) if group else None,
        groups=int(groups[1]) if groups else None,
        levels=int(levels[1]) if levels else None,
    )
