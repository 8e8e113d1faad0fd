"""PatternCase: a pattern on a line, with its cycles and checks. BoundResult: its lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc, Result
from wse_mappings.outcome import Collective


@dataclass(frozen=True, kw_only=True)
class PatternCase(Result):
    """Cycles, traffic and detected faults of a communication pattern on a line of PEs.

    A pattern, such as a chain or a tree, moves words along the line. A case is one pattern with a
    certain number of PEs and of words per PE.
    """

    pattern: Annotated[str, Doc("name of the pattern, as given")]
    pes: Annotated[int, Doc("PEs of the line")]
    words: Annotated[int, Doc("words per PE", "words")]
    fault: Annotated[str | None, Doc("fault of the pattern, in which case there are no cycles")] = None
    collective: Annotated[Collective | None, Doc("the collective that it performs")] = None
    root: Annotated[int | None, Doc("PE that receives the result, or whose words are sent")] = None
    cycles: Annotated[
        float | None, Doc("cycles that the fabric model gives, without the launch of the step", "cycles")
    ] = None
    best: Annotated[bool, Doc("whether it has the fewest cycles of its collective, PEs and words")] = False
    bound_cycles: Annotated[float | None, Doc("lower bound of the collective", "cycles")] = None
    times_bound: Annotated[float | None, Doc("`cycles` over `bound_cycles`")] = None
    form_cycles: Annotated[
        float | None, Doc("cycles that the closed form of the pattern gives, if it has one", "cycles")
    ] = None
    form_error_pct: Annotated[float | None, Doc("relative deviation of `form_cycles` from `cycles`", "%")] = None
    wavelet_cycles: Annotated[int | None, Doc("cycles by cycle-by-cycle simulation; with `--wavelet`", "cycles")] = None
    wavelet_error_pct: Annotated[float | None, Doc("relative deviation of `cycles` from `wavelet_cycles`", "%")] = None
    links: Annotated[int | None, Doc("directed links that carry words")] = None
    busiest_link_words: Annotated[int | None, Doc("words on the busiest link", "words")] = None
    hops: Annotated[int | None, Doc("number of links crossed, summed over all words", "words")] = None
    colours: Annotated[int | None, Doc("colours that it occupies on a PE")] = None
    stalls: Annotated[bool | None, Doc("whether its messages can deadlock; absent if there are too many to check")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class BoundResult(Result):
    """Formula and source of a lower bound on the cycles of a collective such as an all-reduce."""

    collective: Annotated[str, Doc("name of the collective")]
    formula: Annotated[str, Doc("formula, with B words on each of P PEs, d hops or levels, k cycles a level")]
    source: Annotated[str, Doc("publication of the bound")]
