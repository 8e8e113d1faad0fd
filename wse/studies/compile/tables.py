"""The tables of a compilation: stages, PEs by SRAM in use, colours, and the estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from wse.report.placement_lines import sram_table
from wse.report.table import Column, Table, pair_table
from wse.report.terminal import bar, count, in_bytes, percent, seconds, several
from wse.studies.compile.map_view import map_table
from wse.studies.compile.pattern_tables import contention_table, reduces_table
from wse.studies.compile.result import ColourUse, CompileResult, HistogramBin
from wse.studies.results.defects_view import defects_table
from wse.studies.results.placement_view import SRAM_TITLE, fullest_note, placement_table

MOST_STAGES = 16
BAR_WIDTH = 30


def compile_tables(result: CompileResult) -> tuple[Table, ...]:
    """All tables of a compilation."""
    sram, fabric = result.sram, result.fabric
    tables = [placement_table(result.model, result.wafer, result.system)]
    if result.defects is not None:
        tables.append(defects_table(result.defects))
    if len(result.system.stages) > 1:
        tables.append(stages_table(result))
    tables += [
        sram_table(sram.bytes_per_pe, title=SRAM_TITLE, note=fullest_note(sram, result.batch)),
        replace(map_table(sram.map, sum(sram.bytes_per_pe.values())), title="Its map"),
        histogram_table(sram.histogram),
        colours_table(fabric.colours, result.wafer.colours or 0),
    ]
    tables += [table for table in (contention_table(fabric.contention), reduces_table(fabric.reduces)) if table.rows]
    return (*tables, estimate_table(result))


def stages_table(result: CompileResult) -> Table:
    """Where each of the first ``MOST_STAGES`` stages is, and how full its PEs are."""
    rows: list[dict[str, Any]] = []
    for index, (stage, uses) in enumerate(zip(result.system.stages, result.sram.stages, strict=True)):
        rows.append(
            {
                "stage": index,
                "wafer": range_text(stage.wafer, stage.wafer + stage.wafers - 1),
                "rows": range_text(stage.row, stage.row + stage.rows - 1),
                "cols": range_text(stage.col, stage.col + stage.cols - 1),
                "layers": range_text(*stage.layers) if stage.layers else "none",
                "also": " and ".join(
                    name for name, has in (("embedding", stage.embedding), ("head", stage.head)) if has
                ),
                "fraction": 1 - uses["free"] / sum(uses.values()),
            }
        )
    columns = (
        *(Column(key=key, title=key, numeric=True) for key in ("stage", "wafer", "rows", "cols", "layers")),
        Column(key="also", title="also"),
        Column(key="bar", title="SRAM in use", cell=lambda row: bar(row["fraction"], 12, "weights")),
        Column(key="fraction", cell=lambda row: percent(row["fraction"]), numeric=True),
    )
    note = f"{in_bytes(result.system.cut_bytes_per_token)} go from region to region for each token"
    return Table(columns=columns, rows=rows[:MOST_STAGES], title="Stages", note=note)


def histogram_table(bins: Sequence[HistogramBin]) -> Table:
    """PEs by SRAM in use; those outside of regions first, where there are any."""
    all_pes = sum(row.pes for row in bins)
    outside, inside = bins[0], bins[1:]
    filled = [index for index, row in enumerate(inside) if row.pes]
    rows = [{"bin": "outside of regions", "pes": outside.pes, "use": "free"}] if outside.pes else []
    rows += [
        {"bin": f"{row.from_bytes / 1024:g} to {row.to_bytes / 1024:g} KiB", "pes": row.pes, "use": "weights"}
        for row in inside[filled[0] : filled[-1] + 1]
    ]
    columns = (
        Column(key="bin", numeric=True),
        Column(key="bar", cell=lambda row: bar(row["pes"] / all_pes, BAR_WIDTH, row["use"])),
        Column(key="pes", cell=lambda row: several(row["pes"], "PE"), numeric=True),
    )
    return Table(columns=columns, rows=rows, title="PEs by SRAM in use", note="all wafers")


def colours_table(uses: Sequence[ColourUse], available: int) -> Table:
    """The colours of each pattern of each stage, of the ``available`` ones."""

    def strip(row: dict[str, Any]) -> Text:
        use: ColourUse = row["use"]
        text = "·" * use.first + "█" * use.colours + "·" * (available - use.first - use.colours)
        return Text(text, style="yellow" if use.repainted else "cyan")

    rows = [
        {
            "stage": stages if number == 0 else "",
            "pattern": use.pattern,
            "along": use.along,
            "colours": range_text(use.first, use.first + use.colours - 1) if use.colours else "none",
            "use": use,
            "repainted": "in turn" if use.repainted else "",
        }
        for stages, group in _by_stages(uses)
        for number, use in enumerate(group)
    ]
    columns = (
        Column(key="stage", title="stage", numeric=True, folds=True),
        Column(key="pattern", title="pattern"),
        Column(key="along", title="along"),
        Column(key="colours", title="colours", numeric=True),
        Column(key="strip", title="".join(str(index % 10) for index in range(available)), cell=strip),
        Column(key="repainted"),
    )
    note = f"of the {available} that a program may use"
    return Table(columns=columns, rows=rows, title="Colours", note=note)


def _by_stages(uses: Sequence[ColourUse]) -> list[tuple[str, list[ColourUse]]]:
    """The patterns of each stage; stages that have the same ones once, with all their numbers."""
    by_stage: dict[int, list[ColourUse]] = {}
    for use in uses:
        by_stage.setdefault(use.stage, []).append(use)
    stages_of: dict[tuple[ColourUse, ...], list[int]] = {}
    for stage, group in by_stage.items():
        stages_of.setdefault(tuple(replace(use, stage=0) for use in group), []).append(stage)
    return [(_numbers(stages), list(group)) for group, stages in stages_of.items()]


def _numbers(numbers: list[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return range_text(first, last) if len(numbers) == last - first + 1 else ",".join(map(str, numbers))


def range_text(first: int, last: int) -> str:
    """``3–5``, or ``3`` alone."""
    return str(first) if first == last else f"{first}–{last}"


def estimate_table(result: CompileResult) -> Table:
    """Cycles of the prompt and of a token."""
    prefill, decode = result.prefill, result.decode
    after = several(decode.after_tokens or 0, "token")
    rate = f"{count(decode.tokens_per_s)} tokens/s"
    rows = [
        ("prompt", f"{count(prefill.cycles)} cycles, {seconds(prefill.s)}"),
        ("generation", f"{count(decode.cycles_per_token)} cycles a token after {after}: {rate}"),
    ]
    if decode.routing is not None:
        rows.append(("experts", "taken to be chosen as evenly as can be; a run counts those that are"))
    return pair_table(rows, "Estimate", "from the cycle model; nothing was executed")
