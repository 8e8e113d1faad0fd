"""The steps that come first in some order: the costliest, those that send the most, the earliest."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import UnknownName
from wse.inspect.query.opened import Facts, named
from wse.inspect.query.work import Work
from wse_traces.read import Columns
from wse_traces.schema import CAUSES, KINDS, PHASES

ORDERS: Final = {
    **{name: name for name in ("cycles", "words", "hops")},
    **{cause: f"{cause}_cycles" for cause in CAUSES if cause != "hops"},
    "hops-cycles": "hops_cycles",
    "start": "start_cycle",
}
"""What ``--sort`` may name, and the column of the steps that it means; ``hops`` counts links, its cycles are beside."""


def check_order(order: str) -> None:
    """Raise UnknownName for what steps cannot be sorted by."""
    if order not in ORDERS:
        raise UnknownName("column", order, ORDERS, where="--sort")


def step_facts(work: Work, order: str, top: int | None) -> list[Facts]:
    """The first ``top`` steps in an order, or all; steps that are alike are one row, summed over the run."""
    names, ops = work.trace.texts("strings/names"), work.trace.texts("graph/ops/name")
    by = work.steps[ORDERS[order]]
    rows = np.argsort(by if order == "start" else -by, kind="stable")[:top].tolist()
    return [_step(work.steps, row, ops, names) for row in rows]


def _step(places: Columns, row: int, ops: list[str], names: list[str]) -> Facts:
    value = {name: int(column[row]) for name, column in places.items()}
    return {
        "phase": named(PHASES, value["phase"]),
        "op": named(ops, value["op"]),
        "name": named(names, value["name"]),
        "kind": named(KINDS, value["kind"]),
        **{name: value[name] for name in ("layer", "stage", "wafer", "times", "start_cycle")},
        **{name: value[name] for name in ("cycles", "words", "hops", "row", "col", "rows", "cols")},
        "cycles_by": {cause: value[f"{cause}_cycles"] for cause in CAUSES},
    }
