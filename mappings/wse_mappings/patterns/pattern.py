"""The contract of a pattern: what stands beside its messages, so that searches, closed forms and checks can use it.

Each file of this folder that makes messages has a ``PATTERN``; `wse_mappings.patterns.bundled` lists them in order, and
a package of a user's own brings more by entry points of the group ``wse.patterns``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wse_mappings.patterns.sampling import Case, Sizes
from wse_mappings.patterns.terms import Terms
from wse_mappings.schedule import Arrival, LineSchedule

Reduce = Callable[[int, int, Arrival], LineSchedule]
"""A reduce into PE 0 by (length, lines, arrival)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReduce:
    """Reduces of a line into its PE 0, one or a family that differs in a whole number.

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
class Pattern:
    """One communication pattern.

    Attributes:
        name: Its name, that of its schedules.
        samples: Cases of random sizes by what they are called, for `wse validate --against wavelet`.
        reduce: Where it is a reduce of a line into its end: it is then tried in searches for the cheapest pattern,
            from both sides and before a multicast too, and has closed forms.
    """

    name: str
    samples: Mapping[str, Callable[[Sizes], Case]]
    reduce: LineReduce | None = None
