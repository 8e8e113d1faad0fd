"""The output of a comparison of machines for one model, of whichever kind it is."""

from __future__ import annotations

from typing import TextIO

from wse.reports.terminal_table import print_result
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.summary import print_curve
from wse.studies.compare.plan.result import PlanResult
from wse.studies.compare.result import CompareResult
from wse.studies.compare.summary import print_comparison


def print_machines(result: CompareResult | CurveResult | PlanResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print a comparison of machines for one model, of whichever kind it is."""
    if isinstance(result, CompareResult):
        print_comparison(result, stream, detail=detail)
    elif isinstance(result, CurveResult):
        print_curve(result, stream, detail=detail)
    else:
        print_result(result, stream, detail=detail)
