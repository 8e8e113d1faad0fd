"""Description of a pattern besides its messages, as searches, closed forms and checks need it.

Each file of this folder that makes messages has a ``PATTERN``, which
`wse_mappings.patterns.catalogue` finds. Other packages add patterns by entry points of the group
``wse.patterns``.

`Terms` are the quantities that the published cost model of collectives counts, before
``wse.backends.fabric.line.closed_forms`` turns them into cycles of a machine. Source: Luczynski,
Gianinazzi, Iff, Wilson, De Sensi, Hoefler, Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv
2404.15888.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from wse_mappings.patterns.sampling import Case, Sizes
from wse_mappings.schedule import Arrival, LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Quantities of a collective in the published cost model.

    Attributes:
        contention_words: Maximum number of words that one PE sends or receives.
        energy_hops: Number of hops of all words.
        links: Number of directed links in use.
        distance_hops: Number of hops of the longest path.
        depth: Number of operations on PEs that wait for each other.
    """

    contention_words: float
    energy_hops: float
    links: float
    distance_hops: float
    depth: float


def line_terms(length: int, *, contention: float, energy: float, depth: float) -> Terms:
    """Return the terms of a reduce over a line into its end, which uses each link in one direction.

    Args:
        length: Number of PEs in the line.
        contention: Maximum number of words that one PE sends or receives.
        energy: Number of hops of all words.
        depth: Number of operations on PEs that wait for each other.
    """
    return Terms(
        contention_words=contention, energy_hops=energy, links=length - 1, distance_hops=length - 1, depth=depth
    )


Reduce = Callable[[int, int, Arrival], LineSchedule]
"""Function from (length, lines, arrival) to a reduce into PE 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReduce:
    """A reduce of a line into its PE 0, or a family of reduces that differ in an integer parameter.

    Attributes:
        label: Text for reports, with ``{}`` in place of the parameter, if there is one.
        make: Function from the parameter to the reduce.
        authors_number: Parameter that the authors choose, by (PEs, words, cycles per level of
            depth); None if there is no parameter.
        terms: Closed form: function from (PEs, words, cycles per level of depth) to the terms of
            the published model.
        published_cycles: Cycles by (PEs, words, cycles per level), if the published formula does
            not follow from the terms.
    """

    label: str
    make: Callable[[int], Reduce]
    terms: Callable[[int, int, int], Terms]
    authors_number: Callable[[int, int, int], int] | None = None
    published_cycles: Callable[[int, int, int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCollective:
    """A collective of a whole line for comparisons by `wse pattern`, except reduces into an end.

    Attributes:
        make: Function from the number of PEs and a parameter to the pattern of one line. None as
            the parameter stands for the authors' choice.
        takes_number: Whether there is a parameter to choose.
        form: Collective and algorithm of its closed form in
            ``wse.backends.fabric.line.closed_forms``, if it has one.
    """

    make: Callable[[int, int | None], LineSchedule]
    takes_number: bool = False
    form: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A communication pattern, as the catalogue lists it.

    Attributes:
        name: Name in the catalogue.
        samples: Named functions that create cases of random sizes, for `wse validate --against
            wavelet`.
        reduce: The pattern as a reduce of a line into its end, if it is one. It is then included in
            searches for the cheapest pattern, also from both sides and before a multicast, and has
            closed forms.
        collectives: Other collectives of a whole line, by name.
    """

    name: str
    samples: Mapping[str, Callable[[Sizes], Case]]
    reduce: LineReduce | None = None
    collectives: Mapping[str, LineCollective] = field(default_factory=lambda: MappingProxyType({}))
