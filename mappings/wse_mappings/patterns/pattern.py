"""Description of a pattern, apart from its messages, for searches, closed forms and checks.

`wse_mappings.patterns.catalogue` finds all constants of type `Pattern` in the files of this folder.
Other packages add patterns through entry points in the group ``wse.patterns``.

`Terms` are the quantities of the published cost model of collectives, before
``wse.backends.fabric.line.closed_forms`` converts them to cycles of a machine. Source: Luczynski,
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
    """Quantities that determine the cost of a collective operation in a published cost model.

    The model is that of Luczynski et al., HPDC 2024.

    Attributes:
        contention_words: Maximum number of words that one PE sends or receives.
        energy_hops: Total number of hops of all words.
        links: Number of directed links that are used.
        distance_hops: Number of hops on the longest path.
        depth: Number of operations in the longest chain of dependent operations on PEs.
    """

    contention_words: float
    energy_hops: float
    links: float
    distance_hops: float
    depth: float


def line_terms(length: int, *, contention: float, energy: float, depth: float) -> Terms:
    """Return the cost terms of a reduce of a line of PEs into its first PE (see `Terms`).

    All words travel in the same direction, so ``length - 1`` links are used.

    Args:
        length: Number of PEs in the line.
        contention: Maximum number of words that one PE sends or receives.
        energy: Total number of hops of all words.
        depth: Number of operations in the longest chain of dependent operations on PEs.
    """
    return Terms(
        contention_words=contention, energy_hops=energy, links=length - 1, distance_hops=length - 1, depth=depth
    )


Reduce = Callable[[int, int, Arrival], LineSchedule]
"""Function from (length, lines, arrival) to a reduce into PE 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReduce:
    """Algorithm that reduces a line of PEs into its first PE, possibly with an integer parameter.

    The arguments of the last three functions are the number of PEs, the number of words, and the
    cycles per relay (a PE that adds words and sends the sum on).

    Attributes:
        label: Name for reports, with ``{}`` as a placeholder for the parameter, if there is one.
        make: Function that returns the reduce for a value of the parameter.
        authors_number: Function that returns the parameter that the authors of the algorithm
            recommend; None if there is no parameter.
        terms: Function that returns the terms of the published cost model.
        published_cycles: Function that returns the published cycles, if the published formula does
            not follow from the terms.
    """

    label: str
    make: Callable[[int], Reduce]
    terms: Callable[[int, int, int], Terms]
    authors_number: Callable[[int, int, int], int] | None = None
    published_cycles: Callable[[int, int, int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCollective:
    """Collective operation over a whole line of PEs, for comparisons by `wse pattern`.

    Reduces into the first PE of a line are described by `LineReduce` instead.

    Attributes:
        make: Function that returns the pattern of one line, given the number of PEs and a
            parameter. If the parameter is None, the recommendation of the algorithm's authors is
            used.
        takes_number: Whether the algorithm has such a parameter.
        form: Names of the operation and the algorithm under which
            ``wse.backends.fabric.line.closed_forms`` contains the published formula for the cycles;
            None if there is no formula.
    """

    make: Callable[[int, int | None], LineSchedule]
    takes_number: bool = False
    form: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A communication pattern, as listed in the catalogue of patterns.

    Attributes:
        name: Name in the catalogue.
        samples: Functions that create randomly sized test cases for `wse validate --against
            wavelet`, keyed by the name of the test.
        reduce: Description of the pattern as a reduce of a line into its first PE; None if it is
            not such a reduce. A search for the cheapest pattern then tries it on its own, from both
            ends into the middle, and before a multicast.
        collectives: Other collective operations over a whole line, keyed by name.
    """

    name: str
    samples: Mapping[str, Callable[[Sizes], Case]]
    reduce: LineReduce | None = None
    collectives: Mapping[str, LineCollective] = field(default_factory=lambda: MappingProxyType({}))
