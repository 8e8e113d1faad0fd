"""Lower bounds of collectives on a line, each with its formula and source.

A reduce has the published one (`wse.backends.fabric.line.closed_forms.reduce_bound`), and so has an all-reduce, which
leaves the sum on PE 0 too. The others follow from the ramp, which takes a word a cycle, and from the way: B words leave
a root one after another, and the last has the longest way before it; into a root of a gather come the words of all PEs
that are d hops away or more, one after another, the first of them not before d hops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.backends.fabric.line.closed_forms import level_cycles, model_cycles, reduce_bound
from wse.hardware.spec import WaferSpec
from wse_mappings.outcome import Collective
from wse_mappings.patterns import multicast

PUBLISHED: Final = "Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888"
DERIVED: Final = "wse: a ramp takes a word a cycle, and a word has its way to go"


@dataclass(frozen=True, slots=True)
class BoundSource:
    """A lower bound as text: its formula for B words on each of P PEs, k cycles per level, and its source."""

    formula: str
    source: str


_TREE: Final = "min over d of B E*(P, d) / (P - 1) + P - 1 + k d"
SOURCES: Final[dict[Collective, BoundSource]] = {
    "reduce": BoundSource(
        f"{_TREE}; P of the longer side of the root", f"{PUBLISHED}; up to 7 % above what is reached"
    ),
    "all_reduce": BoundSource(f"{_TREE}: the reduce into PE 0", f"{PUBLISHED}; up to 7 % above what is reached"),
    "broadcast": BoundSource("B + the longest way + k", DERIVED),
    "gather": BoundSource("max over d of B times the PEs d hops away or more, + d + k", DERIVED),
    "all_gather": BoundSource("the gather into PE 0", DERIVED),
}


def collective_bound(collective: Collective, length: int, words: int, wafer: WaferSpec, root: int) -> float:
    """Return a lower bound of the cycles of a collective with ``words`` on each of ``length`` PEs, at least two.

    Args:
        collective: What is done.
        length: PEs in the line.
        words: 32-bit words of each PE.
        wafer: Hop and ramp.
        root: The PE that has the result, or whose words are sent; 0 where every PE has the result.

    Raises:
        BadInput: sizes as of `reduce_bound`.
    """
    if collective in ("reduce", "all_reduce"):
        return reduce_bound(length, words, wafer, root=root)
    if collective == "broadcast":
        return model_cycles(multicast.terms(length - 1, words, max(root, length - 1 - root)), wafer)
    away = sorted((abs(pe - root) for pe in range(length) if pe != root), reverse=True)
    return max(words * count + hops * wafer.hop_cycles for count, hops in enumerate(away, 1)) + level_cycles(wafer)
