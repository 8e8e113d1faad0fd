"""Sentences about a wafer, a placement and SRAM that several reports share."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import bar, count, heading, hertz, in_bytes, lines, percent, plain_table, several, show, shown

USES = {
    "code": "code, stack, runtime",
    "weights": "weights",
    "kv": "KV cache",
    "activations": "activations",
    "buffers": "transfer buffers",
    "free": "free",
}


def wafer_line(wafer: dict[str, Any], wafers: int) -> str:
    """``8x8 PEs of wse2 at 850 MHz``."""
    each = "" if wafers == 1 else f"{several(wafers, 'wafer')}, each "
    pes = wafer["rows"] * wafer["cols"]
    mesh = f"{wafer['rows']}x{wafer['cols']} = {several(pes, 'PE')}"
    return f"{each}{mesh} of {shown(wafer['name'])} at {hertz(wafer['clock_hz'])}"


def model_line(model: dict[str, Any]) -> str:
    """Name, size and number formats."""
    activations = "" if model["activations"] == model["dtype"] else f"activations in {model['activations']}, "
    return (
        f"{shown(model['name'])}: {count(model['parameters'])} parameters, {in_bytes(model['bytes'])} "
        f"as {model['dtype']}, {activations}sums in {model['accumulate']}"
    )


def print_placement(console: Console, report: dict[str, Any]) -> None:
    """The wafer, the model, and how the second was put onto the first."""
    system = report["system"]
    stages = [stage for stage in system["stages"] if stage["layers"] or stage["embedding"] or stage["head"]]
    shapes = sorted({(s["rows"], s["cols"]) for s in stages})
    shape = " or ".join(f"{rows}x{cols}" for rows, cols in shapes)
    spread = f" on each of {stages[0]['wafers']} wafers" if stages[0]["wafers"] > 1 else ""
    chunks = system["prefill_chunks"]
    tokens = several(sum(chunks), "token")
    passes = "at once" if len(chunks) == 1 else f"in {len(chunks)} chunks"
    rows = [
        ("wafer", wafer_line(report["wafer"], system["wafers"])),
        ("model", model_line(report["model"])),
        ("mapping", f"{system['mapping']}: {several(len(stages), 'region')} of {shape} PEs{spread}, {_layers(stages)}"),
        ("prefill", f"{tokens} {passes} by {system['prefill']}"),
        ("padding", f"{percent(system['padding_fraction'])} of the weight elements in SRAM are padding"),
    ]
    if "experts" in system:
        experts = system["experts"]
        spread = experts["on_a_column"] == experts["count"]
        where = "each over all columns" if spread else f"at most {several(experts['on_a_column'], 'expert')} a column"
        rows.insert(3, ("experts", f"{experts['active']} of {experts['count']} for a token, {where}"))
    lines(console, rows)


def _layers(stages: list[dict[str, Any]]) -> str:
    held = [s["layers"][1] - s["layers"][0] + 1 if s["layers"] else 0 for s in stages]
    if len(stages) == 1:
        return f"which all {several(held[0], 'layer')} share in turn"
    low, high = min(held), max(held)
    each = several(low, "layer") if low == high else f"{low} to {high} layers"
    return f"{each} each, one after another"


def print_fullest(console: Console, sram: dict[str, Any], batch: int) -> None:
    """The fullest PE, with its heading."""
    tokens = count(sram["kv_capacity_tokens"])
    whose = f" for each of {batch} users" if batch > 1 else ""
    note = f"{percent(sram['fullest_pe_fraction'])} in use; room for {tokens} tokens of KV cache{whose}"
    heading(console, "SRAM of the fullest PE", note)
    print_sram(console, sram["bytes_per_pe"])


def print_sram(console: Console, uses: dict[str, int]) -> None:
    """Bytes by use on one PE, as bars."""
    total = sum(uses.values())
    width = 24 if console.width < 90 else 40
    table = plain_table()
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for use, bytes_ in uses.items():
        table.add_row(
            USES.get(use, use), bar(bytes_ / total, width, use), f"{count(bytes_)} B", percent(bytes_ / total)
        )
    show(console, table)
