"""CompileResult: the locations of a Program's stages, buffers and colours, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from rich.text import Text

from wse.program.routing import EVEN
from wse.reports.number_text import count, in_bytes, index_range, percent, plural, seconds
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number, pair_table
from wse.reports.terminal import WIDEST, bar
from wse.studies.compile.contention import ContentionResult, contention_table
from wse.studies.compile.reduces import ReduceResult, reduces_table
from wse.studies.compile.sram_map import SramMapResult, map_tables
from wse.studies.results.defects import DefectsResult, defects_table
from wse.studies.results.expert_loads import ExpertLoadsResult, expert_loads_table
from wse.studies.results.phases import CrossingResult, DecodeResult, FabricResult, PrefillResult
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult
from wse.studies.results.placement_table import placement_table
from wse.studies.results.rewrites import RewriteResult, rewrites_table
from wse.studies.results.sram import BytesByUse, SramResult, fullest_table

MAX_STAGES: Final = 16
"""Maximum number of stages to print."""


class HistogramBin(Result):
    """Number of PEs that use more than ``from_bytes`` and at most ``to_bytes`` of SRAM."""

    from_bytes: Annotated[int, Doc("lower end of the bin, exclusive", "B")]
    to_bytes: Annotated[int, Doc("upper end of the bin, inclusive; 0 for PEs outside of all regions", "B")]
    pes: Annotated[int, Doc("number of PEs on all wafers")]


class CompileSram(SramResult):
    """SRAM use of a compiled model: by buffer on the fullest PE, by stage, and as a histogram over PEs."""

    stages: Annotated[tuple[BytesByUse, ...], Doc("for each stage, bytes of each use on one PE", "B")]
    histogram: Annotated[tuple[HistogramBin, ...], Doc("number of PEs for each range of SRAM in use")]
    map: Annotated[SramMapResult, Doc("buffers of the fullest PE, sorted by address")]


class ColourUse(Result):
    """The consecutive colours that a communication pattern uses in one stage.

    A colour is a number that selects a route in each router. The routes are configured before the program starts.
    """

    stage: Annotated[int, Doc("index of the stage")]
    pattern: Annotated[str, Doc("name of the pattern")]
    along: Annotated[Literal["rows", "columns"], Doc("lines along which it runs")]
    first: Annotated[int, Doc("first colour")]
    colours: Annotated[int, Doc("number of colours")]
    repainted: Annotated[bool, Doc("whether patterns share these colours, with routes that change at run time")]


class CompileFabric(FabricResult):
    """Communication of a compiled Program: traffic, colours in use, contention, and reduces.

    A colour is a number that selects a route in each router.
    """

    colours: Annotated[tuple[ColourUse, ...], Doc("colours of each pattern in each stage")]
    contention: Annotated[
        tuple[ContentionResult, ...], Doc("patterns that wait for other messages on the same link or ramp")
    ]
    reduces: Annotated[tuple[ReduceResult, ...], Doc("reduces of a generated token, the most cycles first")]


class CompileResult(Result):
    """The result of ``wse compile``: the placement, and the cycles for prompts and tokens.

    ``decode`` and ``crossing`` are None if only one token is generated. Prefill already yields this
    token, so nothing is decoded.
    """

    note: Annotated[str | None, Doc("an assumption about the element type, if no file states the type")] = None
    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("constants of the wafer")]
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    sram: Annotated[CompileSram, Doc("how the SRAM of PEs is used")]
    fabric: Annotated[CompileFabric, Doc("words on links, colours and patterns")]
    prefill: Annotated[PrefillResult, Doc("speed of reading the prompts")]
    decode: Annotated[DecodeResult | None, Doc("speed of generating tokens")] = None
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    defects: Annotated[DefectsResult | None, Doc("cost of dead PEs and links; with `--defects`")] = None
    expert_loads: Annotated[
        tuple[ExpertLoadsResult, ...] | None,
        Doc("loads of experts in a decode pass; with `--routing` or `--place-experts`"),
    ] = None
    rewrites: Annotated[
        tuple[RewriteResult, ...] | None, Doc("rewrites of the steps of a layer; absent with `--schedule baseline`")
    ] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return tables of placement, stages, SRAM, colours, patterns, rewrites and cycles.

        Args:
            detail: Not used.
            width: Terminal width in characters. Wide tables drop columns to fit.
        """
        tables = [placement_table(self.model, self.wafer, self.system, self.note)]
        if self.defects is not None:
            tables.append(defects_table(self.defects))
        if len(self.system.stages) > 1:
            tables.append(_stages_table(self))
        tables.append(fullest_table(self.sram, self.batch, self.system.context, width=width))
        tables += map_tables(self.sram.map, sum(self.sram.bytes_per_pe.values()), width)
        tables += [_histogram_table(self.sram.histogram), _colours_table(self.fabric.colours, self.wafer.colours)]
        if self.fabric.contention:
            tables.append(contention_table(self.fabric.contention))
        if self.fabric.reduces:
            tables.append(reduces_table(self.fabric.reduces))
        if self.rewrites is not None and self.decode is not None:
            tables.append(rewrites_table(self.rewrites, self.decode.cycles_per_token))
        if self.expert_loads is not None:
            tables.append(expert_loads_table(self.expert_loads, self.batch))
        return (*tables, _estimate_table(self))


def _stages_table(result: CompileResult) -> Table:
    """Return a table of the stages with their PE rectangles, layers and SRAM use.

    At most ``MAX_STAGES`` stages are shown.
    """
    rows: list[dict[str, Any]] = []
    for index, (stage, uses) in enumerate(zip(result.system.stages, result.sram.stages, strict=True)):
        rows.append(
            {
                "stage": index,
                "wafer": index_range(stage.wafer, stage.wafer + stage.wafers - 1),
                "rows": index_range(stage.row, stage.row + stage.rows - 1),
                "cols": index_range(stage.col, stage.col + stage.cols - 1),
                "layers": index_range(*stage.layers) if stage.layers else "none",
                "parts": index_range(*stage.parts) if stage.cuts_layers else "",
                "attention": index_range(*(stage.col + col for col in stage.attention))
                if stage.narrows_attention
                else "",
                "also": " and ".join(
                    name for name, is_part in (("embedding", stage.embedding), ("head", stage.head)) if is_part
                ),
                "fraction": 1 - uses["free"] / sum(uses.values()),
            }
        )
    parts = ("parts",) if any(stage.cuts_layers for stage in result.system.stages) else ()
    narrow = ("attention",) if any(stage.narrows_attention for stage in result.system.stages) else ()
    columns = (
        *(number(key, key, str) for key in ("stage", "wafer", "rows", "cols", *narrow, "layers", *parts)),
        Column(key="also", title="also"),
        Column(key="bar", title="SRAM in use", cell=lambda row: bar(row["fraction"], 12, "weights"), priority=9),
        number("fraction", formatter=percent),
    )
    per = "each token" if result.batch == 1 else f"each pass of {result.batch:,} users"
    note = f"{in_bytes(result.system.cut_bytes_per_token)} go from region to region for {per}"
    footer = more_rows(rows, MAX_STAGES)
    return Table(columns=columns, rows=rows[:MAX_STAGES], title="Stages", note=note, footer=footer)


def _histogram_table(bins: Sequence[HistogramBin]) -> Table:
    """Return a table with the number of PEs for each range of SRAM use.

    The first row counts the unused PEs, if there are any.
    """
    all_pes = sum(row.pes for row in bins)
    outside_bin, region_bins = bins[0], bins[1:]
    filled_indices = [index for index, row in enumerate(region_bins) if row.pes]
    rows = [{"bin": "outside of regions", "pes": outside_bin.pes, "use": "free"}] if outside_bin.pes else []
    rows += [
        {"bin": f"{row.from_bytes / 1024:g} to {row.to_bytes / 1024:g} KiB", "pes": row.pes, "use": "weights"}
        for row in region_bins[filled_indices[0] : filled_indices[-1] + 1]
    ]
    columns = (
        number("bin", formatter=str),
        Column(key="bar", cell=lambda row: bar(row["pes"] / all_pes, 30, row["use"]), priority=9),
        number("pes", formatter=lambda pes: plural(pes, "PE")),
    )
    return Table(columns=columns, rows=rows, title="PEs by SRAM in use", note="all wafers")


def _colours_table(uses: Sequence[ColourUse], available: int) -> Table:
    """Return a table of the colours (each selects a route) that each pattern uses in each stage.

    Args:
        uses: The colours of each pattern.
        available: Number of colours that a program may use.
    """

    def strip(row: dict[str, Any]) -> Text:
        """Return a string with one character per available colour, which marks those that are used.

        Args:
            row: Table row, with the colours of one pattern under the key ``use``.
        """
        use: ColourUse = row["use"]
        text = "·" * use.first + "█" * use.colours + "·" * (available - use.first - use.colours)
        return Text(text, style="yellow" if use.repainted else "cyan")

    rows = [
        {
            "stage": stages if index == 0 else "",
            "pattern": use.pattern,
            "along": use.along,
            "colours": index_range(use.first, use.first + use.colours - 1) if use.colours else "none",
            "use": use,
            "repainted": "shared" if use.repainted else "",
        }
        for stages, group in _by_stages(uses)
        for index, use in enumerate(group)
    ]
    columns = (
        number("stage", "stage", str, wraps=True),
        Column(key="pattern", title="pattern"),
        Column(key="along", title="along"),
        number("colours", "colours", str),
        Column(key="strip", title="".join(str(index % 10) for index in range(available)), cell=strip),
        Column(key="repainted"),
    )
    note = f"of the {available} that a program may use"
    return Table(columns=columns, rows=rows, title="Colours", note=note)


def _by_stages(uses: Sequence[ColourUse]) -> list[tuple[str, list[ColourUse]]]:
    """Group colour uses by stage; stages that use the same colours form one group.

    Returns:
        For each group, its stages as text, such as "3–5", and the colour uses of one stage.
    """
    by_stage: dict[int, list[ColourUse]] = {}
    for use in uses:
        by_stage.setdefault(use.stage, []).append(use)
    stages_of: dict[tuple[ColourUse, ...], list[int]] = {}
    for stage, group in by_stage.items():
        stages_of.setdefault(tuple(replace(use, stage=0) for use in group), []).append(stage)
    return [(_numbers(stages), list(group)) for group, stages in stages_of.items()]


def _numbers(numbers: list[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return index_range(first, last) if len(numbers) == last - first + 1 else ",".join(map(str, numbers))


def _estimate_table(result: CompileResult) -> Table:
    """Return a table with the cycles for the prompts and the mean cycles per generated token."""
    prefill, decode = result.prefill, result.decode
    ttft = f"TTFT {seconds(prefill.ttft_s)} with no other request, {count(prefill.tokens_per_s)} tokens/s"
    rows = [("prompt", f"{ttft}; {count(prefill.cycles)} cycles summed over chunks and stages")]
    if decode is not None:
        rate = f"{count(decode.tokens_per_s)} tokens/s"
        rows.append(("generation", f"{count(decode.cycles_per_token)} cycles per token on average: {rate}"))
    if decode is not None and decode.routing is not None:
        even_text = "taken to be chosen as evenly as can be; a run counts those that are"
        rows.append(("experts", even_text if decode.routing == EVEN.name else f"chosen as in {decode.routing}"))
    users = f", for the {result.batch:,} users of a pass together" if result.batch > 1 else ""
    return pair_table(rows, "Estimate", f"from the cycle model; nothing was executed{users}")
