"""Description of a pattern, apart from its messages, for searches, closed forms and checks.

Each file in this folder that creates messages has a ``PATTERN``, which
`wse_mappings.patterns.catalogue` finds. Other packages add patterns through entry points in the
group ``wse.patterns``.

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
    """The quantities that determine the cost of a collective in the published cost model.

    The model is described in Luczynski et al., HPDC 2024.

    Attributes:
        contention_words: Maximum number of words that one PE sends or receives.
        energy_hops: Total number of hops of all words.
        links: Number of directed links in use.
        distance_hops: Number of hops on the longest path.
        depth: Length of the longest chain of dependent operations on PEs.
    """

    contention_words: float
    energy_hops: float
    links: float
    distance_hops: float
    depth: float


def line_terms(length: int, *, contention: float, energy: float, depth: float) -> Terms:
    """Return the cost terms of a reduce into the end of a line, which uses links in one direction.

    Args:
        length: Number of PEs in the line.
        contention: Maximum number of words that one PE sends or receives.
        energy: Total number of hops of all words.
        depth: Length of the longest chain of dependent operations on PEs.
    """
    return Terms(
        contention_words=contention, energy_hops=energy, links=length - 1, distance_hops=length - 1, depth=depth
    )


Reduce = Callable[[int, int, Arrival], LineSchedule]
"""Function from (length, lines, arrival) to a reduce into PE 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReduce:
    """A reduce of a line into PE 0, or a family of reduces that differ in an integer parameter.

    Attributes:
        label: Text for reports, with ``{}`` as a placeholder for the parameter, if any.
        make: Function that maps the parameter to the reduce.
        authors_number: Function that maps (PEs, words, cycles per level of depth) to the parameter
            chosen by the authors of the reduce; None if there is no parameter.
        terms: Function that maps (PEs, words, cycles per level of depth) to the terms of the
            published cost model.
        published_cycles: Function that maps (PEs, words, cycles per level) to the published cycles,
            if the published formula does not follow from the terms.
    """

    label: str
    make: Callable[[int], Reduce]
    terms: Callable[[int, int, int], Terms]
    authors_number: Callable[[int, int, int], int] | None = None
    published_cycles: Callable[[int, int, int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCollective:
    """A whole-line collective, other than a reduce into an end, that `wse pattern` compares.

    Attributes:
        make: Function that maps the number of PEs and a parameter to the pattern of one line. If
            the parameter is None, the authors' choice is used.
        takes_number: Whether there is a parameter to choose.
        form: Names of the collective and algorithm under which
            ``wse.backends.fabric.line.closed_forms`` has its published formula; None if there is
            none.
    """

    make: Callable[[int, int | None], LineSchedule]
    takes_number: bool = False
    form: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A communication pattern, as listed in the catalogue of patterns.

    Attributes:
        name: Name in the catalogue.
        samples: Named functions that create randomly sized cases, for `wse validate --against
            wavelet`.
        reduce: The pattern as a reduce of a line into its end, if it is one. If so, it has closed
            forms and is included in searches for the cheapest pattern, including from both ends
            into the middle and before a multicast.
        collectives: Other whole-line collectives, by name.
    """

    name: str
    samples: Mapping[str, Callable[[Sizes], Case]]
    reduce: LineReduce | None = None
    collectives: Mapping[str, LineCollective] = field(default_factory=lambda: MappingProxyType({}))
