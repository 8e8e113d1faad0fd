"""Combination: the layout of a mapping for an objective on a number of wafers, timed with every link.

A link changes how long crossings take, and with that which of several layouts is the fastest: where a mapping has
several, each link has a search of its own. Layouts for throughput are timed with other links only where these were
requested.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wse.errors import BadInput, DoesNotFit
from wse.hardware.spec import WaferSpec
from wse.reports.terminal import plural
from wse.serving.goal import LATENCY, THROUGHPUT, purpose_text
from wse.studies.compare.grid.rows import row_of
from wse.studies.compare.machine import WAFER, Machine, no_room
from wse.studies.compare.request import CompareRequest, WaferLink
from wse.studies.compare.tables import link_text, mapping_text
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout, layouts_by_users
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import TimedEstimate, timed_estimate
from wse.studies.options.option import replace_options
from wse.studies.results.placement import ModelResult, model_result
from wse.tracing.query.two_traces.comparison_row import ComparisonRow


class Combination(NamedTuple):
    """A combination that is compiled."""

    mapping: str
    wafers: int
    objective: str

    def __str__(self) -> str:
        return f"{self.mapping}, {plural(self.wafers, 'wafer')}{purpose_text(self.objective)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationRows:
    """The rows of a combination, one per link and layout, and the model; the traceback where it ended in a bug in wse.

    ``machines`` has the wafers of each row, or the reason why they serve nobody.
    """

    rows: tuple[ComparisonRow, ...] = ()
    machines: tuple[Machine | str, ...] = ()
    model: ModelResult | None = None
    bug: str = ""


def combination_rows(request: CompareRequest, combination: Combination) -> CombinationRows:
    """Compile a combination and time it with every link; one row with the reason where it cannot be compiled."""
    base = replace_options(
        request.base, mapping=combination.mapping, wafers=combination.wafers, objective=combination.objective
    )
    try:
        return _combination_rows(request, base)
    except (DoesNotFit, BadInput) as error:
        return CombinationRows(rows=(impossible_row(combination, str(error)),))
    except Exception:
        return CombinationRows(bug=traceback.format_exc())


def impossible_row(combination: Combination, reason: str) -> ComparisonRow:
    """Return the row of a combination that cannot be compiled, with the reason."""
    return ComparisonRow(mapping=combination.mapping, wafers=combination.wafers, reason=reason)


def _combination_rows(request: CompareRequest, base: EstimateRequest) -> CombinationRows:
    prepared = prepare_estimate(base)
    chosen = _layouts_by_users(request, prepared)
    program, trials = chosen[None].compilation.program, chosen[None].compilation.trials
    links: Sequence[WaferLink | None] = (None,)
    if program.wafers > 1:
        links = request.links(prepared.wafer)
        links = links if base.serving.objective == LATENCY or request.links_are_given else links[:1]
    rows, machines = [], []
    for link in links:
        linked = with_link(prepared, link)
        again = len(trials) > 1 and linked.wafer != prepared.wafer
        for users, layout in (_layouts_by_users(request, linked) if again else chosen).items():
            timed = timed_estimate(with_link(layout.prepared, link), layout.compilation.program)
            chosen_for = base if users is None else replace_options(base, users=users, objective=LATENCY)
            row = row_of(timed, chosen_for, link, prepared.economics)
            rows.append(row)
            machines.append(_machine(timed, row, link_text(row) if len(links) > 1 else ""))
    model = model_result(prepared.spec, program)
    return CombinationRows(rows=tuple(rows), machines=tuple(machines), model=model)


def _layouts_by_users(request: CompareRequest, prepared: PreparedEstimate) -> dict[int | None, ChosenLayout]:
    """Return the layouts of a combination by number of users; None has the one chosen for the objective.

    A comparison with GPUs varies the users, so for throughput it has the fastest layouts for 2, 4, 8 ... users too.
    """
    if request.gpu and prepared.goal.objective == THROUGHPUT:
        return layouts_by_users(prepared, compile_fastest)
    return {None: choose_layout(prepared, compile_fastest)}


def _machine(timed: TimedEstimate, row: ComparisonRow, link: str) -> Machine | str:
    """Return the wafers of an estimate, or the reason why they serve nobody."""
    deployment, shape = timed.deployment, timed.deployment.shape
    if not deployment.max_concurrency:
        return no_room(shape)
    return Machine(
        kind=WAFER,
        name=timed.result.wafer.name,
        software=mapping_text(row),
        dtype=timed.result.model.dtype,
        link=link,
        deployment=deployment,
    )


def with_link(prepared: PreparedEstimate, link: WaferLink | None) -> PreparedEstimate:
    """Return a request on wafers with another link between them; the same where None is given."""
    if link is None:
        return prepared
    return replace(prepared, wafer=_with_link(prepared.wafer, link), whole=_with_link(prepared.whole, link))


def _with_link(wafer: WaferSpec, link: WaferLink) -> WaferSpec:
    return replace(wafer, wafer_link_bytes_per_s=link.bytes_per_s, wafer_link_latency_s=link.latency_s)
