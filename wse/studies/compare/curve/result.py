"""CurveResult: operating points of wafers and GPUs, published speeds, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from wse.reports.result import Doc, Result
from wse.reports.shared_tables import prefix_text, with_settings_text
from wse.reports.table import Table
from wse.reports.terminal import WIDEST, printable
from wse.serving.goal import plain_speed_footer
from wse.studies.compare.curve.certainty import CurveCertainty
from wse.studies.compare.curve.row import CurveRow
from wse.studies.compare.curve.tables import curve_tables
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.result import AssumptionResult, cache_footer, price_footer
from wse.studies.results.placement import ModelResult
from wse.studies.results.published import PublicPoint, PublishedSpeed, published_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class CurveResult(Result):
    """Comparison of wafers and GPUs for a model: speed per user, and cost and energy per token."""

    inputs: Annotated[Mapping[str, Any], Doc("the options with defaults filled in")]
    note: Annotated[
        str | None, Doc("lengths, or an element type, that were chosen because neither request nor files state them")
    ] = None
    model: Annotated[ModelResult, Doc("the model, its element types and its bytes")]
    wafer: Annotated[Mapping[str, Any], Doc("name, rows and cols of a wafer")]
    economics: Annotated[Mapping[str, AssumptionResult], Doc("assumptions on power and cost of each machine")]
    rows: Annotated[tuple[CurveRow, ...], Doc("wafers, then GPUs; for each machine, fewest users first")]
    public: Annotated[tuple[PublicPoint, ...], Doc("published speeds of services of the model, the fastest first")]
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on these machines, and the ratio of the machine's fastest row to each"),
    ] = None
    impossible: Annotated[Mapping[str, str] | None, Doc("machines that are impossible, with the reasons")] = None
    certainty: Annotated[CurveCertainty, Doc("in what fraction of the samples each statement of the verdict holds")]
    verdict: Annotated[tuple[str, ...], Doc("sentences derived from the machines")]

    @property
    def title(self) -> str:
        """One line with the model, its element types, and the prompt and answer lengths."""
        inputs = self.inputs
        tokens = f"{inputs['prompt_len']:,} + {inputs['new_tokens']:,} tokens{prefix_text(inputs)}"
        types = {kind: ", ".join(dict.fromkeys(r.dtype for r in self.rows if r.kind == kind)) for kind in (WAFER, GPU)}
        one_type = types[WAFER] == types[GPU]
        machines = "wafers and GPUs" if one_type else f"wafers and as {types[GPU]} on GPUs"
        machines = with_settings_text(machines, inputs)
        return f"{printable(self.model.name)} as {types[WAFER]} on {machines}; {tokens}"

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the tables of service tiers, operating points and published speeds.

        Args:
            detail: Whether to show all operating points (machines with a certain number of users).
                By default, a point is left out if another point is at least as fast and cheaper.
            width: Not used.
        """
        published = () if self.published is None else (published_table(self.published),)
        footer = [*cache_footer(row.dtype for row in self.rows if row.kind == GPU), *price_footer(self.economics)]
        tables = curve_tables(
            self.rows,
            self.public,
            self.inputs["plain_speed"],
            detail=detail,
            footer=footer,
            tier_footer=[
                *plain_speed_footer([self.inputs["plain_speed"]]),
                *price_footer(self.economics, with_sources=False),
            ],
        )
        return (*tables, *published)

    def plot(self) -> Figure:
        """Plot the cost and energy per token over the speed per user."""
        from wse.studies.compare.curve.plot import curve_figure

        return curve_figure(self)
