"""View of steps in an order, and the passes of a trace with their cycles and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final

import numpy as np

from wse.errors import UnknownName
from wse.reports.result import Doc, Result
from wse.tracing.query.costs.folds import Ranges, consecutive_ranges, fold_steps, op_in_layer
from wse.tracing.query.costs.step_sums import StepSums, cycle_fraction
from wse.tracing.query.view import View, name_at
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import CAUSES, HOST, KINDS, PHASES

ORDERS: Final = {
    **{name: name for name in ("cycles", "words", "hops")},
    **{cause: f"{cause}_cycles" for cause in CAUSES if cause != "hops"},
    "hops-cycles": "hops_cycles",
    "start": "start_cycle",
}
"""Column by which each order of ``--sort`` sorts.

``hops`` sorts by the number of links that words cross, ``hops-cycles`` by the cycles of the cause.
"""


class Step(Result):
    """A step in one phase, summed over the run, or the sum of several equal steps.

    A step is one kernel on a rectangle of PEs, or one transfer of words. If steps are combined, the
    rectangle and the stage are those of the step that started first.
    """

    phase: Annotated[str, Doc("`prefill`, `decode` or `verify`")]
    op: Annotated[str, Doc("op of the step, within its layer if equal steps are combined; empty: none")]
    name: Annotated[str, Doc("kernel or pattern")]
    kind: Annotated[str, Doc("`compute`, `transfer` or `cross`")]
    layer: Annotated[int, Doc("layer of the model, -1: outside of the layers")]
    layers: Annotated[Ranges, Doc("first and last layer of each range of layers; empty: outside of the layers")]
    count: Annotated[int, Doc("number of equal steps that are combined; 1 with `--each-layer`")]
    stage: Annotated[int, Doc("stage in which the step runs, -1: none")]
    wafer: Annotated[int, Doc("wafer on which the step runs, -1: the host")]
    times: Annotated[int, Doc("number of executions")]
    start_cycle: Annotated[int, Doc("start of the first execution, from the start of the run", "cycles")]
    cycles: Annotated[int, Doc("from the start to the end of a step, summed over executions", "cycles")]
    fraction: Annotated[float, Doc("fraction of the cycles of the phase")]
    words: Annotated[int, Doc("words sent", "words")]
    hops: Annotated[int, Doc("links that these words cross, summed over words", "wavelet-hops")]
    row: Annotated[int, Doc("first row of the rectangle of PEs")]
    col: Annotated[int, Doc("first column of the rectangle")]
    rows: Annotated[int, Doc("number of rows")]
    cols: Annotated[int, Doc("number of columns")]
    cycles_by: Annotated[Mapping[str, int], Doc("the cycles by cause", "cycles")]

    @property
    def mostly(self) -> str:
        """Cause with the most cycles in the step, such as "hops" or "compute"."""
        return max(self.cycles_by, key=lambda cause: self.cycles_by[cause])


class StepsView(View):
    """View of a run's steps in a requested order, such as costliest first.

    A step is one kernel on a rectangle of PEs, or one transfer of words.
    """

    TABLE: ClassVar[str] = "steps"

    sort: Annotated[str, Doc("order of the steps")]
    steps: Annotated[tuple[Step, ...], Doc("the steps")]


def check_order(order: str) -> None:
    """Raise UnknownName if ``order`` is not a valid value of ``--sort``."""
    if order not in ORDERS:
        raise UnknownName("column", order, ORDERS, place="--sort")


def read_steps(sums: StepSums, order: str, top: int | None, *, each_layer: bool = False) -> list[Step]:
    """Return the steps of a trace in a requested order.

    Args:
        sums: Steps of a trace.
        order: Key of ``ORDERS``. "start" is ascending, all other orders are descending.
        top: Maximum number of steps, or None for all.
        each_layer: True to return every step. False to combine equivalent steps, usually the same
            step of several layers, into one row (``wse.tracing.query.costs.folds``).
    """
    names, ops = sums.trace.texts("strings/names"), sums.trace.texts("graph/ops/name")
    if each_layer:
        layers = [consecutive_ranges([layer] if layer >= 0 else []) for layer in sums.steps["layer"].tolist()]
        columns = {**sums.steps, "count": np.ones(len(layers), np.int64)}
    else:
        columns, layers = fold_steps(sums)
        ops = [op_in_layer(op, layer) for op, layer in zip(ops, sums.trace.column("graph/ops/layer"), strict=True)]
    totals = sums.by_phase().cycles[:, 0].tolist()
    values = columns[ORDERS[order]]
    rows = np.argsort(values if order == "start" else -values, kind="stable")[:top].tolist()
    return [_step(columns, row, layers[row], ops, names, totals) for row in rows]


def _step(steps: Columns, row: int, layers: Ranges, ops: list[str], names: list[str], totals: Sequence[int]) -> Step:
    """Convert a row of the table of summed steps to a `Step`.

    Args:
        steps: Columns of the steps.
        row: Index of the row.
        layers: Layers of the combined steps, as ranges.
        ops: Names of the ops.
        names: Names of the kernels and patterns.
        totals: Total cycles of each phase, from which the fraction of the step is computed.
    """
    value = {name: int(column[row]) for name, column in steps.items()}
    phase = value["phase"]
    return Step.from_record(
        value,
        phase=name_at(PHASES, phase),
        op=name_at(ops, value["op"]),
        name=name_at(names, value["name"]),
        kind=name_at(KINDS, value["kind"]),
        layers=layers,
        fraction=cycle_fraction(value["cycles"], totals[phase]) if phase < len(totals) else 0.0,
        cycles_by={cause: value[f"{cause}_cycles"] for cause in CAUSES},
    )


def pass_phases(trace: Trace) -> Array:
    """Return the phase of each pass as a code, int64 ``[pass]``: an index into ``PHASES``.

    The code is -1 if the schedule of the pass is unknown.
    """
    return _schedule_values(trace, "schedules/phase")


def phase_of_pass(trace: Trace, pass_index: int) -> str:
    """Return the name of the phase of a pass, or "" if the trace does not record it."""
    phases = pass_phases(trace)
    return name_at(PHASES, int(phases[pass_index])) if 0 <= pass_index < len(phases) else ""


def run_cycles(trace: Trace) -> int:
    """Return the length of a run in cycles, from its start to the end of its last pass."""
    cycles = _schedule_values(trace, "schedules/cycles")
    is_finished = cycles >= 0
    return int((trace.column("passes/start_cycle")[is_finished] + cycles[is_finished]).max(initial=0))


def crossing_bytes(trace: Trace) -> dict[tuple[str, bool], float]:
    """Return the mean bytes per pass sent between wafers, and between wafers and the host.

    Bytes sent while the model is loaded belong to no phase and are not counted.

    Returns:
        Mean bytes per pass. Each key is a pair of the phase name and whether the host sends or
        receives the bytes.
    """
    crossings, phases = trace.table("crossing"), pass_phases(trace)
    is_in_run = (crossings["pass"] >= 0) & (crossings["pass"] < len(phases))
    phase = np.append(phases, -1)[np.where(is_in_run, crossings["pass"], len(phases))]
    host = (crossings["src_wafer"] == HOST) | (crossings["dst_wafer"] == HOST)
    amounts = {}
    for code, name in enumerate(PHASES):
        passes = max(1, int((phases == code).sum()))
        for at_host in (False, True):
            amounts[name, at_host] = int(crossings["bytes"][(phase == code) & (host == at_host)].sum()) / passes
    return amounts


def _schedule_values(trace: Trace, path: str) -> Array:
    """Return a property of each pass's schedule, the sequence of steps that the pass executes.

    Args:
        trace: An open trace.
        path: Path of the column with the property, in the table of schedules.

    Returns:
        int64 ``[pass]``, with -1 for passes without an existing schedule.
    """
    column, sequence = trace.column(path).astype(np.int64), trace.column("passes/schedule")
    in_table = (sequence >= 0) & (sequence < len(column))
    rows = np.where(in_table, sequence, len(column))
    return np.where(in_table, np.append(column, -1)[rows], -1)
