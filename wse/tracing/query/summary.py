"""The summary of a trace: the run as a whole, and the most important rows of the other views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from wse.reports.result import Doc, Result
from wse.tracing.expert_load import ExpertLoad, ExpertLoadResult
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.steps import Step, read_steps
from wse.tracing.query.costs.tree import LayerOps, read_tree
from wse.tracing.query.places.links import Link, busiest_links
from wse.tracing.query.places.wavelets import Wavelets, read_wavelets
from wse.tracing.query.traced_run import TracedRun, read_run
from wse.tracing.query.view import View, source_of
from wse_traces.reader.groups import group_sums
from wse_traces.reader.read import Columns, Trace
from wse_traces.schema import PHASES

I64 = npt.NDArray[np.int64]


def load_in(trace: Trace) -> ExpertLoad:
    """Read from a trace how many tokens were routed to each expert.

    The result is empty if the model has no experts.
    """
    load = ExpertLoad()
    rows = trace.table("routed")
    if not len(rows["expert"]):
        return load
    phase = trace.column("schedules/phase")[trace.column("passes/schedule")[rows["pass"]]]
    experts = int(max(rows["expert"].max(), trace.column("experts/expert").max(initial=0))) + 1
    for code, name in enumerate(PHASES):
        load.add(name, tokens_by_layer({key: column[phase == code] for key, column in rows.items()}, experts))
    return load


def tokens_by_layer(rows: Columns, experts: int) -> dict[int, I64]:
    """Return the number of tokens routed to each expert in each layer.

    Args:
        rows: Columns ``layer``, ``expert`` and ``tokens``. Multiple rows for the same expert are
            summed.
        experts: Number of experts in each layer.

    Returns:
        int64 ``[experts]`` for each layer index.
    """
    layers, group = np.unique(rows["layer"], return_inverse=True)
    sums = group_sums(rows["tokens"], group * experts + rows["expert"], len(layers) * experts)
    return dict(zip(layers.tolist(), sums.reshape(len(layers), experts), strict=True))


@dataclass(frozen=True, kw_only=True)
class CrossingBytes(Result):
    """Bytes sent between wafers, or between wafers and the host, over the run."""

    bytes: Annotated[int, Doc("bytes over the run", "B")]


@dataclass(frozen=True, kw_only=True)
class SummaryView(TracedRun, View):
    """Summary of a run: cycles broken down by cause, fullest PE, busiest links and costliest steps.

    This is what ``wse inspect TRACE`` shows if no other view is requested.
    """

    crossing: Annotated[CrossingBytes, Doc("bytes between wafers, and to and from the host")]
    links: Annotated[tuple[Link, ...], Doc("busiest links")]
    wavelets: Annotated[Wavelets | None, Doc("log of wavelets, if the run used `--wavelets`")] = None
    experts: Annotated[ExpertLoadResult | None, Doc("load of experts, if the model has any")] = None
    tree: Annotated[tuple[LayerOps, ...], Doc("layers with their ops")]
    steps: Annotated[tuple[Step, ...], Doc("costliest steps")]
    report: Annotated[Mapping[str, Any], Doc("report of the run")]


def read_summary(trace: Trace, top: int, *, each_layer: bool = False) -> SummaryView:
    """Return the summary of a trace.

    Args:
        trace: Trace of a run or estimate.
        top: Maximum number of links and maximum number of steps in the summary.
        each_layer: True to list every layer and every link. False to combine layers with equal
            costs, and links with equal words, into one row.

    Raises:
        TraceError: The trace is damaged.
    """
    sums = StepSums(trace)
    return read_run(trace, sums.phases()).convert(
        SummaryView,
        **source_of(trace, "summary"),
        crossing=CrossingBytes(bytes=int(trace.column("crossings/bytes").sum())),
        links=tuple(busiest_links(trace, top, each_link=each_layer)),
        wavelets=read_wavelets(trace, None),
        experts=load_in(trace).result(),
        tree=tuple(read_tree(sums)),
        steps=tuple(read_steps(sums, "cycles", top, each_layer=each_layer)),
        report=trace.report(),
    )
