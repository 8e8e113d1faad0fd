"""Lower bounds of collectives on a line, each with its formula and source.

- For a reduce and an all-reduce, the bound is the published one
  (`wse.backends.fabric.line.closed_forms.reduce_bound`). An all-reduce also leaves the sum on PE 0.
- For other collectives, the bound follows from the ramp, which carries one word per cycle, and from
  the distance. In a broadcast, B words leave the root sequentially, and the last word still has the
  longest path ahead. In a gather, the words of all PEs at a distance of d hops or more enter the
  root sequentially, the first one after at least d hops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.backends.fabric.line.closed_forms import level_cycles, model_cycles, reduce_bound
from wse.hardware.spec import WaferSpec
from wse_mappings.outcome import Collective
from wse_mappings.patterns import multicast

PUBLISHED: Final = "Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888"
DERIVED: Final = "wse: a ramp carries one word per cycle, and a word has to travel its distance"


@dataclass(frozen=True, slots=True)
class BoundSource:
    """Formula and source of a lower bound, in text form for reports.

    Symbols in the formula: P is the number of PEs, B the number of words per PE, and k the number
    of cycles for each operation that waits for the previous one (level of depth).
    """

    formula: str
    source: str


_TREE: Final = "min over d of B E*(P, d) / (P - 1) + P - 1 + k d"
SOURCES: Final[dict[Collective, BoundSource]] = {
    "reduce": BoundSource(
        f"{_TREE}; P of the longer side of the root", f"{PUBLISHED}; up to 7 % above what is reached"
    ),
    "all_reduce": BoundSource(f"{_TREE}: the reduce into PE 0", f"{PUBLISHED}; up to 7 % above what is reached"),
    "broadcast": BoundSource("B + the longest path + k", DERIVED),
    "gather": BoundSource("max over d of B times the PEs d hops away or more, + d + k", DERIVED),
    "all_gather": BoundSource("the gather into PE 0", DERIVED),
}


def collective_bound(collective: Collective, length: int, words: int, wafer: WaferSpec, root: int) -> float:
    """Return a lower bound on the cycles that a collective on a line takes.

    Args:
        collective: Name of the collective, such as ``broadcast``.
        length: Number of PEs on the line, at least 2.
        words: Number of 32-bit words per PE.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        root: Index of the PE that receives the result, or whose words are sent; 0 if every PE
            receives the result.

    Raises:
        BadInput: A size or the root is invalid, as for `reduce_bound`.
    """
    if collective in ("reduce", "all_reduce"):
        return reduce_bound(length, words, wafer, root=root)
    if collective == "broadcast":
        return model_cycles(multicast.terms(length - 1, words, max(root, length - 1 - root)), wafer)
    distances = sorted((abs(pe - root) for pe in range(length) if pe != root), reverse=True)
    return max(words * count + hops * wafer.hop_cycles for count, hops in enumerate(distances, 1)) + level_cycles(wafer)
