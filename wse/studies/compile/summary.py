"""What ``wse compile`` prints: where everything is, and how full the PEs are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from wse.report.defect_lines import print_defects
from wse.report.placement_lines import print_fullest, print_placement
from wse.report.terminal import (
    COLOURS,
    INDENT,
    bar,
    console_on,
    count,
    heading,
    in_bytes,
    lines,
    percent,
    plain_table,
    seconds,
    several,
    show,
)
from wse.studies.compile.pattern_tables import print_contention, print_reduces

MOST_STAGES = 16
MARKS = {"code": "░", "weights": "█", "kv": "▓", "activations": "▒", "buffers": "▒", "free": "·"}
OF_LAYER = re.compile(r"layers\.(\d+)\.")
SHARED = "↔"

Buffer = dict[str, Any]


def print_compilation(report: dict[str, Any], stream: TextIO) -> None:
    """Print what a placement's report says."""
    console = console_on(stream)
    heading(console, "Placement")
    print_placement(console, report)
    if "defects" in report:
        print_defects(console, report["defects"])
    if len(report["system"]["stages"]) > 1:
        _print_stages(console, report)
    sram = report["sram"]
    place = sram["map"]
    print_fullest(console, sram, report["batch"])
    first = f"row {place['row']}, col {place['col']} of wafer {place['wafer']}"
    heading(console, "Its map", f"every PE of stage {place['stage']}; the first is {first}")
    _print_map(console, place, sum(sram["bytes_per_pe"].values()))
    heading(console, "PEs by SRAM in use", "all wafers")
    _print_histogram(console, sram["histogram"])
    heading(console, "Colours", f"of the {report['wafer']['colours']} that a program may use")
    _print_colours(console, report["fabric"]["colours"], report["wafer"]["colours"])
    print_contention(console, report["fabric"]["contention"])
    print_reduces(console, report["fabric"]["reduces"])
    heading(console, "Estimate", "from the cycle model; nothing was executed")
    _print_estimate(console, report)


def _print_stages(console: Console, report: dict[str, Any]) -> None:
    system, held = report["system"], report["sram"]["stages"]
    heading(console, "Stages", f"{in_bytes(system['cut_bytes_per_token'])} go from region to region for each token")
    table = plain_table(header=True)
    for name in ("stage", "wafer", "rows", "cols", "layers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("also", no_wrap=True)
    table.add_column("SRAM in use", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    for index, (stage, uses) in enumerate(zip(system["stages"], held, strict=True)):
        if index == MOST_STAGES:
            break
        fraction = 1 - uses["free"] / sum(uses.values())
        also = " and ".join(name for name in ("embedding", "head") if stage[name])
        table.add_row(
            str(index),
            _range(stage["wafer"], stage["wafer"] + stage["wafers"] - 1),
            _range(stage["row"], stage["row"] + stage["rows"] - 1),
            _range(stage["col"], stage["col"] + stage["cols"] - 1),
            _range(*stage["layers"]) if stage["layers"] else "none",
            also,
            bar(fraction, 12, "weights"),
            percent(fraction),
        )
    show(console, table)
    if len(held) > MOST_STAGES:
        lines(console, [("...", f"and {len(held) - MOST_STAGES} more; --json has them all")])


@dataclass(kw_only=True)
class _Row:
    """Buffers that stand together and are alike, as one line of the map."""

    use: str
    buffers: list[Buffer]

    @property
    def start(self) -> int:
        return int(self.buffers[0]["address"])

    @property
    def end(self) -> int:
        return int(max(b["address"] + b["bytes"] for b in self.buffers))

    @property
    def bytes(self) -> int:
        return int(sum(b["bytes"] for b in self.buffers))

    @property
    def name(self) -> str:
        """``q+k+v`` alone, or ``layers 0 to 4, each q+k+v 1,024, ...``."""
        layers = sorted({int(match[1]) for b in self.buffers if (match := OF_LAYER.search(b["name"]))})
        if not layers or len(self.buffers) == 1:
            return OF_LAYER.sub("", self.buffers[0]["name"]).replace("_", " ")
        first = [b for b in self.buffers if f"layers.{layers[0]}." in b["name"]]
        each = ", ".join(f"{OF_LAYER.sub('', b['name']).replace('_', ' ')} {count(b['bytes'])}" for b in first)
        whose = f"layer {layers[0]}:" if len(layers) == 1 else f"layers {layers[0]} to {layers[-1]}, each"
        return f"{whose} {each}"


def _rows(buffers: list[Buffer]) -> list[_Row]:
    """One row a buffer, but one for all layers' weights that stand together, and one for their caches."""
    rows: list[_Row] = []
    for buffer in buffers:
        of_layer = OF_LAYER.search(buffer["name"]) is not None and not buffer["live"]
        if rows and of_layer and rows[-1].use == buffer["use"] and OF_LAYER.search(rows[-1].buffers[-1]["name"]):
            rows[-1].buffers.append(buffer)
        else:
            rows.append(_Row(use=buffer["use"], buffers=[buffer]))
    return rows


def _print_map(console: Console, place: dict[str, Any], total: int) -> None:
    rows = _rows(place["buffers"])
    _print_strip(console, place["buffers"], total)
    table = plain_table(header=True)
    table.add_column("address", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("use", no_wrap=True)
    table.add_column("what")
    width = 16 if console.width < 90 else 32
    table.add_column("live in a token", no_wrap=True, min_width=width)
    for row in rows:
        shared = any(b["shares_with"] for b in row.buffers)
        name = f"{SHARED} {row.name}" if shared else row.name
        style = COLOURS.get(row.use, "")
        use = Text(row.use, style=style)
        table.add_row(f"{count(row.start)}", count(row.bytes), use, name, _lifetime(row, place["decode_steps"], width))
    end = max((row.end for row in rows), default=0)
    table.add_row(count(end), count(total - end), Text("free", style=COLOURS["free"]), "", "")
    show(console, table)
    sharing = [b for b in place["buffers"] if b["shares_with"]]
    if sharing:
        placed, taken = count(sum(b["bytes"] for b in sharing)), count(_covered(sharing))
        text = f"shares bytes with buffers that never live at the same time: {placed} B of buffers on {taken} B"
        lines(console, [(SHARED, text)])


def _print_strip(console: Console, buffers: list[Buffer], total: int) -> None:
    """All of the PE's SRAM on one line, by use."""
    width = console.width - 2 * INDENT - 2
    strip = Text(" " * INDENT)
    for cell in range(width):
        middle = (cell + 0.5) * total / width
        use = next((b["use"] for b in buffers if b["address"] <= middle < b["address"] + b["bytes"]), "free")
        strip.append(MARKS[use], style=COLOURS[use])
    console.print(strip)
    legend = Text(" " * INDENT)
    for use in ("code", "weights", "kv", "activations", "free"):
        name = "activations, buffers" if use == "activations" else use
        legend.append(MARKS[use], style=COLOURS[use])
        legend.append(f" {name}   ", style="bright_black")
    console.print(legend)


def _lifetime(row: _Row, steps: int, width: int) -> Text:
    """Where in the steps of a token the buffer holds something that is still needed."""
    live = row.buffers[0]["live"]
    if not live:
        return Text("always", style="bright_black")
    spans = [(s["first_step"], s["last_step"]) for s in live if s["phase"] == "decode"]
    if not spans:
        return Text("only while the prompt runs", style="bright_black")
    cells = [" "] * width
    for first, last in spans:
        for cell in range(first * width // steps, last * width // steps + 1):
            cells[cell] = "━"
    return Text("".join(cells), style=COLOURS.get(row.use, ""))


def _covered(buffers: list[Buffer]) -> int:
    """Bytes of SRAM under any of the buffers."""
    total = end = 0
    for start, stop in sorted((b["address"], b["address"] + b["bytes"]) for b in buffers):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _print_histogram(console: Console, rows: list[dict[str, int]]) -> None:
    every = sum(row["pes"] for row in rows)
    outside, inside = rows[0], rows[1:]
    filled = [i for i, row in enumerate(inside) if row["pes"]]
    table = plain_table()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if outside["pes"]:
        table.add_row("outside of regions", bar(outside["pes"] / every, 30, "free"), several(outside["pes"], "PE"))
    for row in inside[filled[0] : filled[-1] + 1]:
        label = f"{row['from_bytes'] / 1024:g} to {row['to_bytes'] / 1024:g} KiB"
        table.add_row(label, bar(row["pes"] / every, 30, "weights"), several(row["pes"], "PE"))
    show(console, table)


def _print_colours(console: Console, uses: list[dict[str, Any]], available: int) -> None:
    table = plain_table(header=True)
    table.add_column("stage", justify="right", no_wrap=True)
    table.add_column("pattern", no_wrap=True)
    table.add_column("along", no_wrap=True)
    table.add_column("colours", justify="right", no_wrap=True)
    table.add_column("".join(str(i % 10) for i in range(available)), no_wrap=True)
    table.add_column("", no_wrap=True)
    for stages, group in _alike(uses):
        for number, use in enumerate(group):
            strip = "·" * use["first"] + "█" * use["colours"] + "·" * (available - use["first"] - use["colours"])
            span = _range(use["first"], use["first"] + use["colours"] - 1) if use["colours"] else "none"
            repainted = "in turn" if use["repainted"] else ""
            style = "yellow" if use["repainted"] else "cyan"
            label = stages if number == 0 else ""
            table.add_row(label, use["pattern"], use["along"], span, Text(strip, style=style), repainted)
    show(console, table)


def _alike(uses: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The patterns of each stage; stages that have the same ones together."""
    by_stage: dict[int, list[dict[str, Any]]] = {}
    for use in uses:
        by_stage.setdefault(use["stage"], []).append(use)
    groups: list[tuple[list[int], list[dict[str, Any]]]] = []
    for stage, mine in by_stage.items():
        plain = [{k: v for k, v in use.items() if k != "stage"} for use in mine]
        for stages, known in groups:
            if known == plain:
                stages.append(stage)
                break
        else:
            groups.append(([stage], plain))
    return [(_numbers(stages), known) for stages, known in groups]


def _numbers(numbers: list[int]) -> str:
    return (
        _range(numbers[0], numbers[-1]) if len(numbers) == numbers[-1] - numbers[0] + 1 else ",".join(map(str, numbers))
    )


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _print_estimate(console: Console, report: dict[str, Any]) -> None:
    prefill, decode = report["prefill"], report["decode"]
    rows = [
        ("prompt", f"{count(prefill['cycles'])} cycles, {seconds(prefill['s'])}"),
        (
            "generation",
            f"{count(decode['cycles_per_token'])} cycles a token after {several(decode['after_tokens'], 'token')}: "
            f"{count(decode['tokens_per_s'])} tokens/s",
        ),
    ]
    if "routing" in decode:
        rows.append(("experts", "taken to be chosen as evenly as can be; a run counts those that are"))
    lines(console, rows)
