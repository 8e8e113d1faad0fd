"""Tables of a wafer, a model, a placement and SRAM, which several studies print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from wse.report.placement_lines import print_sram, wafer_line
from wse.report.table import Table, pair_table
from wse.report.terminal import count, heading, in_bytes, percent, several, shown
from wse.studies.results.placement import ModelResult, StageResult, SystemResult, WaferResult
from wse.studies.results.sram import SramResult

SRAM_TITLE = "SRAM of the fullest PE"


def model_line(model: ModelResult) -> str:
    """Name, size and number formats of a model."""
    activations = "" if model.activations == model.dtype else f"activations in {model.activations}, "
    return (
        f"{shown(model.name)}: {count(model.parameters)} parameters, {in_bytes(model.bytes)} "
        f"as {model.dtype}, {activations}sums in {model.accumulate}"
    )


def placement_table(model: ModelResult, wafer: WaferResult, system: SystemResult) -> Table:
    """The wafer, the model, and how the second was put onto the first."""
    stages = [stage for stage in system.stages if stage.layers or stage.embedding or stage.head]
    shapes = sorted({(s.rows, s.cols) for s in stages})
    shape = " or ".join(f"{rows}x{cols}" for rows, cols in shapes)
    span = f" on each of {stages[0].wafers} wafers" if stages[0].wafers > 1 else ""
    chunks = system.prefill_chunks
    tokens = several(sum(chunks), "token")
    passes = "at once" if len(chunks) == 1 else f"in {len(chunks)} chunks"
    wafers = wafer_line(wafer.name, wafer.rows, wafer.cols, wafer.clock_hz, system.wafers)
    rows = [
        ("wafer", wafers),
        ("model", model_line(model)),
        ("mapping", f"{system.mapping}: {several(len(stages), 'region')} of {shape} PEs{span}, {_layers(stages)}"),
        ("prefill", f"{tokens} {passes} by {system.prefill}"),
        ("padding", f"{percent(system.padding_fraction)} of the weight elements in SRAM are padding"),
    ]
    experts = system.experts
    if experts is not None:
        spread = experts.on_a_column == experts.count
        where = "each over all columns" if spread else f"at most {several(experts.on_a_column, 'expert')} a column"
        rows.insert(3, ("experts", f"{experts.active} of {experts.count} for a token, {where}"))
    return pair_table(rows, "Placement")


def _layers(stages: Sequence[StageResult]) -> str:
    layers = [s.layers[1] - s.layers[0] + 1 if s.layers else 0 for s in stages]
    if len(stages) == 1:
        return f"which all {several(layers[0], 'layer')} share in turn"
    low, high = min(layers), max(layers)
    some = several(low, "layer") if low == high else f"{low} to {high} layers"
    return f"{some} each, one after another"


def fullest_note(sram: SramResult, batch: int) -> str:
    """How full the fullest PE is, and for how many tokens of KV cache there is room."""
    whose = f" for each of {batch} users" if batch > 1 else ""
    tokens = count(sram.kv_capacity_tokens)
    return f"{percent(sram.fullest_pe_fraction)} in use; room for {tokens} tokens of KV cache{whose}"


def print_fullest(console: Console, sram: SramResult, batch: int) -> None:
    """Print SRAM of the fullest PE by use, with its heading."""
    heading(console, SRAM_TITLE, fullest_note(sram, batch))
    print_sram(console, sram.bytes_per_pe)
