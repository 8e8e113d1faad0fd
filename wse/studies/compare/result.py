"""CompareResult: the rows of a comparison of wafers, mappings and links, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from wse.hardware.number import Grade
from wse.reports.page.html_table import tables_as_html
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import prefix_text, price_text, with_settings_text
from wse.reports.table import Table
from wse.reports.terminal import WIDEST, printable
from wse.serving.gpus.weights import FORMATS, SMALL_CACHE_BITS
from wse.studies.compare.grid.ranges import OrderResult
from wse.studies.compare.grid.streaming import STREAMED
from wse.studies.compare.tables import best_table, detail_tables, verdict_table
from wse.studies.results.placement import ModelResult
from wse.studies.results.published import PublishedSpeed, published_table
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AssumptionResult(Result):
    """An assumed price or power of a machine, with its source and a grade for its reliability."""

    value: Annotated[float, Doc("the number")]
    unit: Annotated[str, Doc("unit of the number")]
    grade: Annotated[Grade, Doc("evidence grade of the number")]
    source: Annotated[str, Doc("source of the number")]
    range: Annotated[tuple[float, float] | None, Doc("lowest and highest value")] = None

    @property
    def text(self) -> str:
        """Text with the number, its unit, range and source, and a grade for its reliability."""
        low, _, high = self.low_value_high
        span = "" if low == high else f", from {low:,g} to {high:,g}"
        return f"{self.value:,g} {self.unit}{span}, grade {self.grade}: {self.source}"

    @property
    def low_value_high(self) -> tuple[float, float, float]:
        """Low end of the range, value, and high end. Without a range, all three equal the value."""
        low, high = self.range or (self.value, self.value)
        return low, self.value, high


def price_footer(economics: Mapping[str, AssumptionResult], *, with_sources: bool = True) -> list[tuple[str, str]]:
    """Return the lines below a cost table, which state each machine's price and its effect on costs.

    Args:
        economics: Assumptions, keyed by ``wafer_usd_per_hour``, ``gpu_usd_per_hour.h100`` etc.
        with_sources: Whether to state the sources of the prices.

    Returns:
        (label, text) pairs.
    """
    prices = {key.partition(".")[2] or "wafer": price for key, price in economics.items() if "_usd_per_hour" in key}
    return [
        ("price", printable(price_text(price.low_value_high, machine, price.source if with_sources else "")))
        for machine, price in prices.items()
    ]


def cache_footer(gpu_types: Iterable[str]) -> list[tuple[str, str]]:
    """Return the line below a table of machines about GPUs whose KV caches have fewer than 16 bits per element.

    Args:
        gpu_types: Element types of the weights on GPUs.

    Returns:
        A list with a (label, text) pair; an empty list if all KV caches have 16 bits per element.
    """
    types = [name for name in dict.fromkeys(gpu_types) if FORMATS[name].cache_bits == SMALL_CACHE_BITS]
    text = f"{SMALL_CACHE_BITS} bits per element on GPUs with {' or '.join(types)} weights"
    return [("KV caches", text)] if types else []


class CompareResult(Result):
    """Comparison of a model on various numbers of wafers, with various mappings and wafer links.

    A mapping is a rule for distributing the model's layers over PEs.
    """

    question: Annotated[str | None, Doc("the question that was asked")] = None
    inputs: Annotated[Mapping[str, Any], Doc("the options with defaults filled in")]
    note: Annotated[
        str | None, Doc("lengths, or an element type, that were chosen because neither request nor files state them")
    ] = None
    model: Annotated[ModelResult, Doc("the model, its element types and its bytes")]
    wafer: Annotated[Mapping[str, Any], Doc("name, rows and cols of a wafer")]
    economics: Annotated[Mapping[str, AssumptionResult], Doc("assumptions on which power and cost depend")]
    rows: Annotated[tuple[ComparisonRow, ...], Doc("all combinations, sorted by mapping, then by number of wafers")]
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on such wafers, and the ratio of the fastest row to each"),
    ] = None
    orders: Annotated[
        tuple[OrderResult, ...] | None, Doc("how certain it is that the best row is better than the second best")
    ] = None
    verdict: Annotated[tuple[str, ...], Doc("sentences derived from the rows")]

    @property
    def title(self) -> str:
        """One line with the model, the wafer, and the prompt and answer lengths."""
        wafer, inputs = self.wafer, self.inputs
        model = f"{printable(self.model.name)} as {self.model.dtype}"
        machine = with_settings_text(
            f"{printable(wafer['name'])} wafers of {wafer['rows']}x{wafer['cols']} PEs (rows x columns)", inputs
        )
        batch = f", batches of {inputs['batch']:,}" if inputs["batch"] > 1 else ""
        lengths = (
            f"{inputs['prompt_len']:,} prompt + {inputs['new_tokens']:,} output tokens per request{prefix_text(inputs)}"
        )
        return f"{model} on {machine}; {lengths}{batch}"

    @property
    def possible(self) -> tuple[ComparisonRow, ...]:
        """Rows of the possible combinations. All other rows only state a ``reason``."""
        return tuple(row for row in self.rows if row.possible)

    @property
    def best(self) -> tuple[ComparisonRow, ...]:
        """Best rows of each wafer count: fastest for one user, and fastest for all users.

        The rows are sorted by the number of wafers. If `by_link` is true, every inter-wafer link
        has its own best rows. Otherwise, rows with other links than the wafers' own are ignored.
        """
        first: dict[str, object] = {}
        for row in self.possible:
            if row.wafers > 1:
                first.setdefault(row.mapping, row.link)
        by_link = self.by_link
        best_rows = [r for r in self.possible if r.best and (by_link or r.wafers == 1 or r.link == first[r.mapping])]
        return tuple(sorted(best_rows, key=lambda row: row.wafers))

    @property
    def by_link(self) -> bool:
        """Whether the best rows are selected separately for each inter-wafer link.

        This is the case if links were requested, or if weights are streamed over links.
        """
        return bool(self.inputs.get("links_given")) or any(row.mapping == STREAMED for row in self.rows)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the tables of the best rows and of published speeds, with details on request.

        Args:
            detail: Whether to add tables of all possible rows.
            width: Not used.
        """
        published = () if self.published is None else (published_table(self.published),)
        footer = price_footer(self.economics)
        best = best_table(self.best, by_link=self.by_link, footer=footer)
        return (best, *published, *(detail_tables(self.possible, footer) if detail else ()))

    def _repr_html_(self) -> str:
        """Return the verdict and the tables as HTML, for notebooks."""
        return tables_as_html((verdict_table(self.verdict), *self.tables()))

    def plot(self) -> Figure:
        """Plot speed per user, throughput and cost over the number of wafers."""
        from wse.studies.compare.plot import figure_of

        return figure_of(self)
