"""PatternCase: a pattern on a line with its cycles and checks. BoundResult: its lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc, Result
from wse_mappings.outcome import Collective


@dataclass(frozen=True, kw_only=True)
class PatternCase(Result):
    """A communication pattern on a line of PEs with some words per PE: its cycles and checks."""

    pattern: Annotated[str, Doc("its name, as it was given")]
    pes: Annotated[int, Doc("PEs of the line")]
    words: Annotated[int, Doc("words of each PE", "words")]
    fault: Annotated[str | None, Doc("what is wrong with the pattern, which then has no cycles")] = None
    collective: Annotated[Collective | None, Doc("what it does, found by following every PE's words")] = None
    root: Annotated[int | None, Doc("the PE that has the result, or whose words are sent")] = None
    cycles: Annotated[float | None, Doc("by the fast model, without the launch of the step", "cycles")] = None
    best: Annotated[bool, Doc("whether no other does the same for as many PEs and words in fewer cycles")] = False
    bound_cycles: Annotated[float | None, Doc("the lower bound of its collective", "cycles")] = None
    times_bound: Annotated[float | None, Doc("the cycles over that bound")] = None
    form_cycles: Annotated[float | None, Doc("its closed form, where there is one", "cycles")] = None
    form_error_pct: Annotated[float | None, Doc("the closed form against the cycles", "%")] = None
    wavelet_cycles: Annotated[int | None, Doc("cycle by cycle; with --wavelet", "cycles")] = None
    wavelet_error_pct: Annotated[float | None, Doc("the fast model against cycle by cycle", "%")] = None
    links: Annotated[int | None, Doc("directed links that carry words")] = None
    busiest_link_words: Annotated[int | None, Doc("words over the busiest of them", "words")] = None
    hops: Annotated[int | None, Doc("links that all words cross, summed", "words")] = None
    colours: Annotated[int | None, Doc("colours that it occupies on a PE")] = None
    stalls: Annotated[
        bool | None, Doc("whether its messages can wait for each other in a circle; unknown of very many")
    ] = None


@dataclass(frozen=True, kw_only=True)
class BoundResult(Result):
    """The formula and the source of the lower bound of a collective, such as an all-reduce."""

    collective: Annotated[str, Doc("of which collective")]
    formula: Annotated[str, Doc("B words on each of P PEs, d hops or levels, k cycles a level")]
    source: Annotated[str, Doc("whose it is")]
