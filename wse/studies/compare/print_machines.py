"""Output of any kind of comparison of machines for one model."""

from __future__ import annotations

from typing import TextIO

from wse.reports.terminal_table import print_result
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.summary import print_curve
from wse.studies.compare.plan.result import PlanResult
from wse.studies.compare.result import CompareResult
from wse.studies.compare.summary import print_comparison


def print_machines(result: CompareResult | CurveResult | PlanResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print a comparison or ranking of machines for one model.

    Args:
        result: Comparison of wafers, comparison of wafers with GPUs, or ranking of machines.
        stream: Text stream to print to.
        detail: Whether to also print all rows and, for comparisons, assumptions and options.
    """
    if isinstance(result, CompareResult):
        print_comparison(result, stream, detail=detail)
    elif isinstance(result, CurveResult):
        print_curve(result, stream, detail=detail)
    else:
        print_result(result, stream, detail=detail)
