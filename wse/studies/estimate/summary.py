"""The output of ``wse estimate``: what was asked, the answer, what limits it, SRAM; more with ``detail``."""

from __future__ import annotations

import shlex
from typing import TextIO

from rich.console import Console

from wse.report.cause_bars import TITLE, print_causes
from wse.report.terminal import console_on, count, heading, lines, shown
from wse.report.terminal_table import print_table
from wse.studies.estimate.bounds_table import print_bounds, print_left, print_levels
from wse.studies.estimate.pipelining_table import print_pipelining
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.search_table import print_search
from wse.studies.estimate.tables import (
    answer_table,
    inputs_table,
    sensitivity_table,
    stage_sram_table,
    users_table,
)
from wse.studies.results.defects_view import defects_table
from wse.studies.results.placement_view import placement_table, print_fullest


def print_estimate(result: EstimateResult, stream: TextIO, *, detail: bool = False) -> None:
    """Print an estimate."""
    console = console_on(stream)
    print_table(console, inputs_table(result))
    if detail:
        print_table(console, placement_table(result.model, result.wafer, result.system))
    print_table(console, answer_table(result))
    if result.defects is not None:
        print_table(console, defects_table(result.defects))
    if result.bounds is not None:
        print_bounds(console, result.bounds)
        if detail:
            print_levels(console, result.bounds)
    if result.decode is not None:
        heading(console, TITLE)
        print_causes(console, result.decode.cycles_by)
    _print_sram(console, result, detail=detail)
    if result.schedule is not None and (detail or result.schedule.stages > 1):
        print_pipelining(console, result.schedule)
    if result.search is not None and (detail or result.inputs["mapping"] == "auto"):
        print_search(console, result.search, result.wafer.clock_hz)
    if result.sensitivity is not None:
        print_table(console, sensitivity_table(result.sensitivity))
    if result.trace is not None:
        heading(console, "Trace")
        look = shown(f"wse inspect {shlex.quote(result.trace)}")
        lines(console, [("written to", shown(result.trace)), ("look inside", look)])


def _print_sram(console: Console, result: EstimateResult, *, detail: bool) -> None:
    print_fullest(console, result.sram, result.batch)
    code = result.sram.code
    taken = f"{count(code.bytes_per_pe)} B a PE ({code.grade}) without stack and runtime"
    lines(console, [("code", f"{taken}; released research kernels take {count(code.research_bytes_per_pe)} B")])
    print_table(console, users_table(result))
    if detail:
        print_table(console, stage_sram_table(result))
        print_left(console, result.sram.stages)
