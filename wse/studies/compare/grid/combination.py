"""Combination of a mapping, a number of wafers and an objective, timed with every link.

A link determines how long crossings between wafers take. Unless a layout partitions ops or experts
across wafers, it has nearly the same crossings as other layouts, so the best layout hardly depends
on the link. There is a separate search for each link only if the first search has tried layouts
that partition ops or experts across wafers. Otherwise, all links are timed on the same layout, so
that a better link is never slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wse.compiler.strategies import strategy
from wse.errors import BadInput, DoesNotFit
from wse.reports.number_text import plural
from wse.serving.goal import LATENCY, THROUGHPUT, purpose_text
from wse.studies.compare.grid.ranges import RowSamples, samples_of, with_ranges
from wse.studies.compare.grid.rows import row_of
from wse.studies.compare.machine import WAFER, Machine, no_room
from wse.studies.compare.request import CompareRequest, WaferLink
from wse.studies.compare.tables import link_text, mapping_text
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout, layouts_by_users
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.ranges.constants import SAMPLES
from wse.studies.estimate.ranges.sampled_figures import Uncertainty, sampled_times
from wse.studies.estimate.ranges.study import uncertainty_of
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import TimedEstimate, timed_estimate
from wse.studies.options.option import replace_options
from wse.studies.results.placement import ModelResult, model_result
from wse.tracing.query.two_traces.comparison_row import ComparisonRow


class Combination(NamedTuple):
    """One of the cases that a comparison compiles: a mapping, a number of wafers and an objective.

    Attributes:
        mapping: Name of the mapping, which is the rule for distributing layers across PEs.
        wafers: Number of wafers.
        objective: What the layout is optimised for: ``latency``, ``throughput`` or ``cost``.
    """

    mapping: str
    wafers: int
    objective: str

    def __str__(self) -> str:
        """Return a description for messages: mapping, number of wafers, and objective."""
        return f"{self.mapping}, {plural(self.wafers, 'wafer')}{purpose_text(self.objective)}"


class CombinationRow(NamedTuple):
    """Result of a combination for one inter-wafer link and one layout.

    Attributes:
        row: The row of the comparison.
        machine: The machine that serves the model, or the reason why it cannot serve even a single
            user.
        samples: Speed and cost for random samples of the uncertain constants. Ranges are computed
            from them. Empty if the comparison needs no ranges.
    """

    row: ComparisonRow
    machine: Machine | str
    samples: RowSamples


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationRows:
    """Results of one combination of mapping, number of wafers and objective.

    Attributes:
        rows: One row for each inter-wafer link and layout.
        model: The model; None if it cannot be compiled for this combination.
    """

    rows: tuple[CombinationRow, ...]
    model: ModelResult | None = None


def combination_rows(request: CompareRequest, combination: Combination) -> CombinationRows:
    """Compile a model for a combination, and time it with every requested inter-wafer link.

    A combination consists of a mapping, a number of wafers and an objective. If it is impossible,
    the result has a single row with the reason.
    """
    base = replace_options(
        request.base, mapping=combination.mapping, wafers=combination.wafers, objective=combination.objective
    )
    try:
        return _combination_rows(request, base)
    except (DoesNotFit, BadInput) as error:
        row = ComparisonRow(mapping=combination.mapping, wafers=combination.wafers, reason=str(error))
        return CombinationRows(rows=(CombinationRow(row, str(error), {}),))


def _combination_rows(request: CompareRequest, base: EstimateRequest) -> CombinationRows:
    """Compile a model for a combination, and time it with every requested inter-wafer link.

    A combination consists of a mapping, a number of wafers and an objective.

    Args:
        request: Options of the comparison.
        base: The request with the combination's mapping, number of wafers and objective.

    Raises:
        BadInput: The combination is not possible for the model.
        DoesNotFit: The model does not fit on the wafers.
    """
    prepared_estimate = prepare_estimate(base)
    layouts = _layouts_by_users(request, prepared_estimate)
    program, trials = layouts[None].compilation.program, layouts[None].compilation.trials
    links: Sequence[WaferLink | None] = (None,)
    if program.wafers > 1:
        links = request.links(prepared_estimate.wafer)
        links = links if base.serving.objective == LATENCY or request.links_are_given else links[:1]
    strategies = [strategy(trial.layout.mapping) for trial in trials]
    depends_on_link = any(mapping.spans_wafers or mapping.experts_apart for mapping in strategies)
    rows = []
    for link in links:
        linked = with_link(prepared_estimate, link)
        needs_search = depends_on_link and linked.wafer != prepared_estimate.wafer
        for users, layout in (_layouts_by_users(request, linked) if needs_search else layouts).items():
            linked_estimate = with_link(layout.prepared, link)
            timed_layout = timed_estimate(linked_estimate, layout.compilation.program)
            layout_request = base if users is None else replace_options(base, users=users, objective=LATENCY)
            row = row_of(timed_layout, layout_request, link, prepared_estimate.economics)
            uncertainty = uncertainty_of(linked_estimate, layout.compilation.program) if row.users else None
            samples = {} if request.gpu else samples_of(uncertainty, timed_layout.deployment, row)
            machine = _machine(timed_layout, row, link_text(row) if len(links) > 1 else "", uncertainty)
            rows.append(CombinationRow(with_ranges(row, samples), machine, samples))
    return CombinationRows(rows=tuple(rows), model=model_result(prepared_estimate.spec, program))


def _layouts_by_users(request: CompareRequest, prepared_estimate: PreparedEstimate) -> dict[int | None, ChosenLayout]:
    """Return the layouts to compare for one mapping and one number of wafers.

    Usually this is only the best layout for the objective. If wafers are compared with GPUs and
    the objective is throughput, the fastest layouts for 2, 4, 8 ... users are added, because such
    a comparison shows machines with various numbers of users.

    Returns:
        The layouts. The best layout for the objective has the key None, and each other layout has
        the number of users for which it is the fastest.
    """
    if request.gpu and prepared_estimate.goal.objective == THROUGHPUT:
        return layouts_by_users(prepared_estimate, compile_fastest)
    return {None: choose_layout(prepared_estimate, compile_fastest)}


def _machine(
    timed_layout: TimedEstimate, row: ComparisonRow, link: str, uncertainty: Uncertainty | None
) -> Machine | str:
    """Create a machine from the estimate for a layout, or return why it cannot serve a single user.

    Args:
        timed_layout: The estimate.
        row: Row of the estimate, which contains the name of the mapping.
        link: Description of the inter-wafer link; empty if only one link is compared.
        uncertainty: Uncertain constants and model errors of the estimate; None if not even one user
            fits.
    """
    deployment = timed_layout.deployment
    if uncertainty is None:
        return no_room(deployment.shape)
    return Machine(
        kind=WAFER,
        name=timed_layout.result.wafer.name,
        software=mapping_text(row),
        dtype=timed_layout.result.model.dtype,
        link=link,
        deployment=deployment,
        time_ratios=sampled_times(uncertainty, SAMPLES),
    )


def with_link(prepared_estimate: PreparedEstimate, link: WaferLink | None) -> PreparedEstimate:
    """Return a prepared request whose wafers are connected by a certain link.

    The request is returned unchanged if ``link`` is None.
    """
    if link is None:
        return prepared_estimate
    wafer, whole = (
        replace(spec, wafer_link_bytes_per_s=link.bytes_per_s, wafer_link_latency_s=link.latency_s)
        for spec in (prepared_estimate.wafer, prepared_estimate.whole)
    )
    return replace(prepared_estimate, wafer=wafer, whole=whole)
