"""PatternResult: the compared cases of patterns with their cycles and checks, and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from wse.reports.number_text import count
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import with_settings_text
from wse.reports.table import Column, Table, number
from wse.reports.terminal import WIDEST, printable
from wse_mappings.outcome import Collective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST = "*"


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
    root: Annotated[int | None, Doc("PE that receives the result, or that sends its words")] = None
    cycles: Annotated[float | None, Doc("cycles by the fabric model, without the launch of the step", "cycles")] = None
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
    stalls: Annotated[bool | None, Doc("whether its messages can deadlock; absent if too many to check")] = None


class BoundResult(Result):
    """Formula and source of a lower bound on the cycles of a collective such as an all-reduce."""

    collective: Annotated[str, Doc("name of the collective")]
    formula: Annotated[str, Doc("formula, with B words on each of P PEs, d hops or levels, k cycles a level")]
    source: Annotated[str, Doc("publication of the bound")]


class PatternResult(Result):
    """The result of ``wse pattern``: the cycle counts of communication patterns on lines of PEs."""

    wafer: Annotated[str, Doc("the wafer's name")]
    software: Annotated[str, Doc("name of the software profile")]
    settings: Annotated[Mapping[str, float], Doc("constants that differ from the files of the machine, by name")]
    cases: Annotated[tuple[PatternCase, ...], Doc("patterns by PEs and words, the fewest cycles first")]
    bounds: Annotated[tuple[BoundResult, ...], Doc("lower bounds of the collectives")]

    @property
    def machine(self) -> str:
        """Names of the wafer and of its software, with the constants that the user replaced."""
        return with_settings_text(f"{printable(self.wafer)}, {printable(self.software)} software", self.settings)

    @property
    def faults(self) -> tuple[str, ...]:
        """Messages about faulty patterns, such as deadlocks, each with the number of PEs."""
        return tuple(f"{case.pattern} on {case.pes} PEs: {case.fault}" for case in self.cases if case.fault)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return one table per collective operation, comparing the patterns for that operation.

        Patterns with a fault are left out. The lower bound is explained below the table.
        """
        return tuple(self._table(bound) for bound in self.bounds)

    def plot(self) -> Figure:
        """Plot cycles against words, with one panel per collective operation and line length."""
        from wse.studies.pattern.plot import pattern_figure

        return pattern_figure(self.cases, [bound.collective for bound in self.bounds], self.machine)

    def _table(self, bound: BoundResult) -> Table:
        rows = [case for case in self.cases if case.collective == bound.collective]
        with_wavelets = any(row.wavelet_cycles is not None for row in rows)
        columns = (
            Column(key="pattern", title="pattern", wraps=True, min_width=20),
            *(number(key, title, count) for key, title in (("pes", "PEs"), ("words", "words"))),
            Column(key="cycles", title="cycles  ", cell=_cycles_text, numeric=True),
            number("times_bound", "× bound", "{:.2f}".format),
            number("bound_cycles", "bound", count, priority=2),
            number("form_cycles", "form", count, priority=1),
            number("form_error_pct", "off by", "{:+.1f} %".format, priority=1),
            *([number("wavelet_cycles", "wavelets", count)] if with_wavelets else []),
            number("links", "links", count, priority=4),
            number("busiest_link_words", "busiest", count),
            number("colours", "colours", str),
            number("root", "root", str, priority=3),
        )
        footer = (("bound", f"{bound.formula}: {bound.source}"),)
        name = bound.collective.replace("_", "-").capitalize()
        note = f"on a line of {self.machine}; {BEST} is the best of its size"
        return Table(columns=columns, rows=rows, title=name, note=note, footer=footer)


def _cycles_text(case: PatternCase) -> Text:
    text = Text("" if case.cycles is None else count(case.cycles))
    return text.append(f" {BEST}", "bold green") if case.best else text.append("  ")
