"""Placement table: the wafer, the model, and the model's stages on the wafer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from wse.reports.number_text import count, in_bytes, percent, plural
from wse.reports.shared_tables import mapping_with_summary, setting_texts, wafer_line
from wse.reports.table import Table, pair_table
from wse.reports.terminal import printable

if TYPE_CHECKING:
    from wse.studies.results.placement import ModelResult, StageResult, SystemResult, WaferResult

ABOUT_ALL: Final = 0.95
"""Minimum fraction of a wafer's PEs in use at which the wafer is reported as fully used."""
TRANSPOSED: Final = "rows of stages and PEs are columns of the wafer, and columns are its rows"
"""Meaning of positions in a transposed layout."""
PREFILL_PRODUCTS: Final = {
    "mesh-gemm": "PE rows divide the tokens, and tiles of weights or activations move from PE to PE",
    "mesh-gemm-own-weights": "like mesh-gemm, on a second copy of the weights",
    "thin-gemm": "each PE multiplies all tokens of a chunk by its own weights, as in decode",
}
"""Explanations of the matrix products of prefill, keyed by name."""


def _model_line(model: ModelResult) -> str:
    """Return a one-line description of a model: its name, size and number formats."""
    activations = "" if model.activations == model.dtype else f"activations as {model.activations}, "
    return (
        f"{printable(model.name)}: {count(model.parameters)} parameters, {in_bytes(model.bytes)} "
        f"as {model.dtype}, {activations}accumulation in {model.accumulate}"
    )


def used_text(wafer: WaferResult, system: SystemResult) -> str:
    """Describe which part of a wafer the stages occupy, such as "400x400 in use, 25 %".

    The occupied part extends from the first PE to the last row and column of any stage. Its rows
    are those of the wafer, also if the layout is transposed. The text is empty if this part covers
    at least 95 % of the wafer.
    """
    used_fraction = system.used_rows * system.used_cols / (wafer.rows * wafer.cols)
    if used_fraction >= ABOUT_ALL:
        return ""
    rows, cols = (system.used_cols, system.used_rows) if system.transposed else (system.used_rows, system.used_cols)
    return f"{rows}x{cols} in use, {percent(used_fraction)}"


def described_mapping(name: str) -> str:
    """Return the name of a mapping and, in brackets, what it does.

    A mapping from a user's file has only its name.
    """
    from wse.compiler.strategies import strategies  # slow to load, and not needed to read a result

    return mapping_with_summary(name, strategies())


def placement_table(model: ModelResult, wafer: WaferResult, system: SystemResult, note: str | None = None) -> Table:
    """Build the table of the wafer, the model, and its placement on the wafer.

    Args:
        model: The model's name, size and element types.
        wafer: The wafer's name, size and clock.
        system: The model's mapping and stages.
        note: Text of an additional last row, or None.
    """
    stages = [stage for stage in system.stages if stage.layers or stage.embedding or stage.head]
    shapes = sorted({(s.rows, s.cols) for s in stages})
    shape = " or ".join(f"{rows}x{cols}" for rows, cols in shapes)
    span = f" on each of {stages[0].wafers} wafers" if stages[0].wafers > 1 else ""
    chunks = system.prefill_chunks
    tokens = plural(sum(chunks), "token")
    passes = "in one chunk" if len(chunks) == 1 else f"in {len(chunks)} chunks"
    wafers = wafer_line(wafer.name, wafer.rows, wafer.cols, wafer.clock_hz, system.wafers)
    used_pes = used_text(wafer, system)
    rows = [
        ("wafer", f"{wafers}; {used_pes}" if used_pes else wafers),
        *([("changed", " ".join(setting_texts(wafer.replaced)))] if wafer.replaced else []),
        ("model", _model_line(model)),
        ("mapping", described_mapping(system.mapping)),
        *([("transposed", TRANSPOSED)] if system.transposed else []),
        ("stages", f"{plural(len(stages), 'pipeline stage')} of {shape} PEs{span}, {_layers(stages)}"),
        ("prefill", f"{tokens} {passes}; {system.prefill}: {PREFILL_PRODUCTS[system.prefill]}"),
        (
            "padding",
            f"{percent(system.padding_fraction)} of the weight elements in SRAM fill up tiles; copies of vectors such "
            "as norm scales, on several PEs, are not counted",
        ),
    ]
    if column_counts := sorted({s.attention[1] - s.attention[0] + 1 for s in stages if s.narrows_attention}):
        columns = " or ".join(map(str, column_counts))
        rows.insert(3, ("attention", f"on the middle {columns} columns of each stage that has more"))
    if model.weights is not None:
        rows.insert(2, ("weights", f"{model.weights}: not the weights of the model, so its tokens are meaningless"))
    experts = system.experts
    if experts is not None:
        is_spread = experts.on_a_column == experts.count
        placement = (
            "each on all columns" if is_spread else f"at most {plural(experts.on_a_column, 'expert')} per column"
        )
        rows.insert(-2, ("experts", f"{experts.active} of {experts.count} per token, {placement}"))
    if note is not None:
        rows.append(("note", printable(note)))
    return pair_table(rows, "Placement")


def _layers(stages: Sequence[StageResult]) -> str:
    """Describe the layers per stage, such as "3 layers each, 2 of them split"."""
    layers = [s.layers[1] - s.layers[0] + 1 if s.layers else 0 for s in stages]
    if len(stages) == 1:
        return f"with all {plural(layers[0], 'layer')}"
    low, high = min(layers), max(layers)
    layer_text = plural(low, "layer") if low == high else f"{low} to {high} layers"
    cut = len({stage.layers[0] for stage in stages if stage.layers and stage.parts[0]})
    return f"{layer_text} each" + (f", {cut} of them split" if cut else "")
