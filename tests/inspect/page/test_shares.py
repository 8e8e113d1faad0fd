"""Shares on the page of a trace are those that ``wse inspect`` prints: fractions of the cycles of their phase."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.inspect.runs import STORY, TWO_WAFERS
from wse.reports.terminal import percent
from wse.tracing.page.gather import view_trace
from wse.tracing.print.steps import print_tree
from wse.tracing.query.costs.groups import read_groups
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.tree import TreeView, read_tree
from wse.tracing.query.two_traces.compare import compare_traces
from wse.tracing.query.view import source_of
from wse_traces import open_trace

TRACES = [STORY, TWO_WAFERS]


def test_tree_counts_cycles_of_no_op_too() -> None:
    with open_trace(TWO_WAFERS) as trace:
        sums = StepSums(trace)
        sums.steps["op"][0] = -1  # the costliest step is of no op
        view = TreeView(**source_of(trace, "tree"), phases=sums.phases(), tree=tuple(read_tree(sums)))
        kinds = read_groups(sums, "kind", None)
    console = Console(file=io.StringIO(), width=100)
    print_tree(console, view)
    shown = {line.split()[0]: line for line in console.file.getvalue().splitlines() if line.strip()}  # type: ignore[attr-defined]
    head = next(kind for kind in kinds if (kind.phase, kind.kind) == ("decode", "head"))
    assert percent(head.fraction) in shown["head"]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_sram_in_use_is_one_fraction(path: Any) -> None:
    stages = view_trace(path, lambda values: values)["stages"]
    row = compare_traces(path, path).rows[0]
    assert max(stage["used_fraction"] for stage in stages) == row.sram_fullest_pe_fraction
