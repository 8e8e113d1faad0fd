"""Terms: what the published model of collectives counts of a pattern, before a machine makes cycles of it.

Source: Luczynski, Gianinazzi, Iff, Wilson, De Sensi, Hoefler, Near-Optimal Wafer-Scale Reduce, HPDC 2024,
arXiv 2404.15888. How cycles follow is in the hub: ``wse.fabric.line.closed_forms``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Counts of one collective.

    Attributes:
        contention_words: The most words that one PE sends or receives.
        energy_hops: Hops of all words.
        links: Directed links in use.
        distance_hops: Hops of the longest way.
        depth: Operations of PEs that wait for each other.
    """

    contention_words: float
    energy_hops: float
    links: float
    distance_hops: float
    depth: float


def line_terms(length: int, *, contention: float, energy: float, depth: float) -> Terms:
    """Counts of a reduce over a whole line of ``length`` PEs into its end, which uses every link one way."""
    return Terms(
        contention_words=contention, energy_hops=energy, links=length - 1, distance_hops=length - 1, depth=depth
    )
