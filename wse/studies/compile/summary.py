"""The output of ``wse compile``: where everything is, and how full the PEs are."""

from __future__ import annotations

from typing import TextIO

from wse.report.terminal import console_on, heading, lines
from wse.report.terminal_table import print_table
from wse.studies.compile.map_view import print_map
from wse.studies.compile.pattern_tables import print_contention, print_reduces
from wse.studies.compile.result import CompileResult
from wse.studies.compile.tables import MOST_STAGES, colours_table, estimate_table, histogram_table, stages_table
from wse.studies.results.defects_view import defects_table
from wse.studies.results.placement_view import placement_table, print_fullest


def print_compilation(result: CompileResult, stream: TextIO) -> None:
    """Print where a Program puts everything."""
    console = console_on(stream)
    print_table(console, placement_table(result.model, result.wafer, result.system))
    if result.defects is not None:
        print_table(console, defects_table(result.defects))
    stages = len(result.system.stages)
    if stages > 1:
        print_table(console, stages_table(result))
    if stages > MOST_STAGES:
        lines(console, [("...", f"and {stages - MOST_STAGES} more; --json has them all")])
    sram = result.sram
    print_fullest(console, sram, result.batch)
    first = f"row {sram.map.row}, col {sram.map.col} of wafer {sram.map.wafer}"
    heading(console, "Its map", f"every PE of stage {sram.map.stage}; the first is {first}")
    print_map(console, sram.map, sum(sram.bytes_per_pe.values()))
    print_table(console, histogram_table(sram.histogram))
    print_table(console, colours_table(result.fabric.colours, result.wafer.colours or 0))
    print_contention(console, result.fabric.contention)
    print_reduces(console, result.fabric.reduces)
    print_table(console, estimate_table(result))
