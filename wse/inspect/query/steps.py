"""The steps that come first in some order: the costliest, those that send the most, the earliest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import numpy as np

from wse.errors import UnknownName
from wse.inspect.query.step_sums import StepSums
from wse.inspect.query.view import View, name_at
from wse.report.result import Doc, Result
from wse_traces.read import Columns
from wse_traces.schema import CAUSES, KINDS, PHASES

ORDERS: Final = {
    **{name: name for name in ("cycles", "words", "hops")},
    **{cause: f"{cause}_cycles" for cause in CAUSES if cause != "hops"},
    "hops-cycles": "hops_cycles",
    "start": "start_cycle",
}
"""Orders of ``--sort``, and the column of the steps that each means; ``hops`` counts links, ``hops-cycles`` cycles."""


@dataclass(frozen=True, kw_only=True)
class Step(Result):
    """Equal steps of one phase at one place, summed over the run."""

    phase: Annotated[str, Doc("`prefill`, `decode` or `verify`")]
    op: Annotated[str, Doc("op that it belongs to, empty: none")]
    name: Annotated[str, Doc("kernel or pattern")]
    kind: Annotated[str, Doc("`compute`, `transfer` or `cross`")]
    layer: Annotated[int, Doc("layer of the model, -1: outside of the layers")]
    stage: Annotated[int, Doc("stage that it runs in, -1: none")]
    wafer: Annotated[int, Doc("wafer that it runs on, -1: the host")]
    times: Annotated[int, Doc("how many times it ran")]
    start_cycle: Annotated[int, Doc("start of the first of them, from the start of the run", "cycles")]
    cycles: Annotated[int, Doc("from its start to its end", "cycles")]
    words: Annotated[int, Doc("words sent", "words")]
    hops: Annotated[int, Doc("links that the wavelets of these cross", "wavelet-hops")]
    row: Annotated[int, Doc("first row of its rectangle of PEs")]
    col: Annotated[int, Doc("first column of it")]
    rows: Annotated[int, Doc("rows of it")]
    cols: Annotated[int, Doc("columns of it")]
    cycles_by: Annotated[Mapping[str, int], Doc("the cycles by cause", "cycles")]

    @property
    def mostly(self) -> str:
        """The cause with the most cycles."""
        return max(self.cycles_by, key=lambda cause: self.cycles_by[cause])


@dataclass(frozen=True, kw_only=True)
class StepsView(View):
    """Steps in an order."""

    TABLE: ClassVar[str] = "steps"

    sort: Annotated[str, Doc("what they are sorted by")]
    steps: Annotated[tuple[Step, ...], Doc("the steps")]


def check_order(order: str) -> None:
    """Raise UnknownName for what steps cannot be sorted by."""
    if order not in ORDERS:
        raise UnknownName("column", order, ORDERS, where="--sort")


def read_steps(sums: StepSums, order: str, top: int | None) -> list[Step]:
    """The first ``top`` steps in an order, or all."""
    names, ops = sums.trace.texts("strings/names"), sums.trace.texts("graph/ops/name")
    by = sums.steps[ORDERS[order]]
    rows = np.argsort(by if order == "start" else -by, kind="stable")[:top].tolist()
    return [_step(sums.steps, row, ops, names) for row in rows]


def _step(steps: Columns, row: int, ops: list[str], names: list[str]) -> Step:
    value = {name: int(column[row]) for name, column in steps.items()}
    return Step.from_record(
        value,
        phase=name_at(PHASES, value["phase"]),
        op=name_at(ops, value["op"]),
        name=name_at(names, value["name"]),
        kind=name_at(KINDS, value["kind"]),
        cycles_by={cause: value[f"{cause}_cycles"] for cause in CAUSES},
    )
