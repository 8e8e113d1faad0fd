"""The contract of a pattern: what stands beside its messages, so that searches, closed forms and checks can use it.

Each file of this folder that makes messages has a ``PATTERN``; `wse_mappings.patterns.catalogue` finds them,
and a package of a user's own brings more by entry points of the group ``wse.patterns``. `Terms` are what the published
model of collectives counts of a pattern, before a machine makes cycles of it (``wse.backends.fabric.line.closed_forms``
in the hub): Luczynski, Gianinazzi, Iff, Wilson, De Sensi, Hoefler, Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv
2404.15888."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from wse_mappings.patterns.sampling import Case, Sizes
from wse_mappings.schedule import Arrival, LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The counts of a collective in the published cost model.

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
    """Return the terms of a reduce over a line of ``length`` PEs into its end, which uses each link one way."""
    return Terms(
        contention_words=contention, energy_hops=energy, links=length - 1, distance_hops=length - 1, depth=depth
    )


Reduce = Callable[[int, int, Arrival], LineSchedule]
"""A reduce into PE 0 by (length, lines, arrival)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReduce:
    """A reduce of a line into its PE 0, or a family of them that differ in a whole number.

    Attributes:
        label: Words for readers, with a place ``{}`` for the number where there is one.
        make: From the number to the reduce.
        authors_number: The number that the authors choose for (PEs, words, cycles of a level of depth); None where
            there is none to choose.
        terms: The closed form: (PEs, words, cycles of a level of depth) to what the published model counts.
        published_cycles: Cycles by (PEs, words, cycles of a level) where they are published otherwise than by terms.
    """

    label: str
    make: Callable[[int], Reduce]
    terms: Callable[[int, int, int], Terms]
    authors_number: Callable[[int, int, int], int] | None = None
    published_cycles: Callable[[int, int, int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCollective:
    """A collective of a whole line other than a reduce into its end, for comparisons by `wse pattern`.

    Attributes:
        make: From PEs and a number, None for the authors' choice, to the pattern of one line.
        takes_number: Whether there is a number to choose.
        form: Its collective and algorithm in ``wse.backends.fabric.line.closed_forms``, where it has a closed form.
    """

    make: Callable[[int, int | None], LineSchedule]
    takes_number: bool = False
    form: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A communication pattern.

    Attributes:
        name: Its name in the catalogue.
        samples: Cases of random sizes by what they are called, for `wse validate --against wavelet`.
        reduce: Where it is a reduce of a line into its end: it is then tried in searches for the cheapest pattern,
            from both sides and before a multicast too, and has closed forms.
        collectives: What else it does on a whole line, by name.
    """

    name: str
    samples: Mapping[str, Callable[[Sizes], Case]]
    reduce: LineReduce | None = None
    collectives: Mapping[str, LineCollective] = field(default_factory=lambda: MappingProxyType({}))
