"""Cell: a mapping on a number of wafers, compiled once and timed with every link; the unit of a comparison's work.

A link changes no Program, only how long its crossings take.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wse.errors import BadInput, DoesNotFit
from wse.hardware.spec import WaferSpec
from wse.report.comparison_row import ComparisonRow
from wse.report.terminal import plural
from wse.request.compare_request import CompareRequest, WaferLink
from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import PreparedEstimate, prepare_estimate
from wse.studies.compare.rows import row_of
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.estimate import estimate_of
from wse.studies.results.placement import ModelResult, model_result


class Cell(NamedTuple):
    """A combination that is compiled."""

    mapping: str
    wafers: int

    def __str__(self) -> str:
        return f"{self.mapping}, {plural(self.wafers, 'wafer')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRows:
    """The rows of a cell, one a link, and the model; the traceback where it ended in a bug of ours."""

    rows: tuple[ComparisonRow, ...] = ()
    model: ModelResult | None = None
    bug: str = ""


def cell_rows(request: CompareRequest, cell: Cell) -> CellRows:
    """Compile a cell and time it with every link; one row with the reason where it cannot be."""
    base = replace(request.base, mapping=cell.mapping, wafers=cell.wafers)
    try:
        return _cell_rows(request, base)
    except (DoesNotFit, BadInput) as error:
        return CellRows(rows=(impossible(cell, str(error)),))
    except Exception:
        return CellRows(bug=traceback.format_exc())


def impossible(cell: Cell, reason: str) -> ComparisonRow:
    """The row of a cell that cannot be."""
    return ComparisonRow(mapping=cell.mapping, wafers=cell.wafers, reason=reason)


def _cell_rows(request: CompareRequest, base: EstimateRequest) -> CellRows:
    prepared = prepare_estimate(base)
    program = compile_fastest(prepared).program
    links: Sequence[WaferLink | None] = request.links(prepared.wafer) if program.wafers > 1 else (None,)
    rows = tuple(
        row_of(estimate_of(with_link(prepared, link), program), base.mapping, link, prepared.economics, request.streams)
        for link in links
    )
    return CellRows(rows=rows, model=model_result(prepared.spec, program))


def with_link(prepared: PreparedEstimate, link: WaferLink | None) -> PreparedEstimate:
    """A request on wafers with another link between them; the same where None is given."""
    if link is None:
        return prepared
    return replace(prepared, wafer=_linked(prepared.wafer, link), whole=_linked(prepared.whole, link))


def _linked(wafer: WaferSpec, link: WaferLink) -> WaferSpec:
    return replace(wafer, wafer_link_bytes_per_s=link.bytes_per_s, wafer_link_latency_s=link.latency_s)
