"""``model``, ``wafer`` and ``system`` of a result: the model, the wafer and its stages; and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np

from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count, stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program, Stage
from wse.program.transfers.kinds import transfer_of, transfer_steps
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import setting_texts, wafer_line
from wse.reports.table import Table, pair_table
from wse.reports.terminal import count, in_bytes, percent, plural, printable
from wse_mappings.cuts.layer_parts import LAYER_PARTS

ABOUT_ALL: Final = 0.95
"""The share of a wafer's PEs from which on those that are not in use are left over, and not left out."""


@dataclass(frozen=True, kw_only=True)
class ModelResult(Result):
    """The model and the element types that it is held in."""

    name: Annotated[str, Doc("name of the model")]
    parameters: Annotated[int, Doc("parameters, tied ones once")]
    dtype: Annotated[str, Doc("element type of the weights of linear layers")]
    activations: Annotated[str, Doc("element type of activations, the KV cache and all other weights")]
    accumulate: Annotated[str, Doc("element type of sums")]
    bytes: Annotated[int, Doc("all tensors of the model in these types", "B")]
    weights: Annotated[str | None, Doc("`random:SEED` where weights are random; of runs with `--weights`")] = None


@dataclass(frozen=True, kw_only=True)
class WaferResult(Result):
    """A wafer as programs see it."""

    name: Annotated[str, Doc("name of the wafer")]
    rows: Annotated[int, Doc("rows of PEs of its mesh")]
    cols: Annotated[int, Doc("columns of PEs of its mesh")]
    clock_hz: Annotated[float, Doc("clock", "Hz")]
    sram_bytes_per_pe: Annotated[int | None, Doc("SRAM of a PE; of estimate and compile", "B")] = None
    colours: Annotated[int | None, Doc("colours that its runtime leaves to programs; of compile")] = None
    replaced: Annotated[
        Mapping[str, float] | None, Doc("numbers of it and of software that `--set` replaced, by name")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExpertsResult(Result):
    """The experts of a layer, and how they are spread over columns."""

    count: Annotated[int, Doc("experts of a layer")]
    active: Annotated[int, Doc("experts that a token uses")]
    on_a_column: Annotated[int, Doc("experts of which a column of PEs holds a share, at most")]


@dataclass(frozen=True, kw_only=True)
class StageResult(Result):
    """A stage: layers, and the rectangle of PEs that runs them."""

    wafer: Annotated[int, Doc("index of its wafer, of the first where it spans several")]
    wafers: Annotated[int, Doc("wafers that it spans")]
    row: Annotated[int, Doc("row of its first PE")]
    col: Annotated[int, Doc("column of its first PE")]
    rows: Annotated[int, Doc("rows of PEs, on each wafer")]
    cols: Annotated[int, Doc("columns of PEs, on each wafer")]
    layers: Annotated[tuple[int, ...], Doc("first and last layer; empty without layers")]
    parts: Annotated[
        tuple[int, ...],
        Doc("of the first layer its first part, of the last its last: 0 attention, 1 to 8 eighths of the block"),
    ]
    attention: Annotated[
        tuple[int, ...], Doc("first and last column of its region that attention works on; empty where it has none")
    ]
    embedding: Annotated[bool, Doc("whether it looks tokens up")]
    head: Annotated[bool, Doc("whether it makes logits")]

    @property
    def narrows_attention(self) -> bool:
        """True if attention works on some of its columns alone."""
        return self.attention not in ((), (0, self.wafers * self.cols - 1))

    @property
    def cuts_layers(self) -> bool:
        """True if some parts of its first or last layer are elsewhere."""
        return self.parts not in ((), (0, LAYER_PARTS - 1))


@dataclass(frozen=True, kw_only=True)
class SystemResult(Result):
    """Wafers, mapping and stages."""

    wafers: Annotated[int, Doc("wafers")]
    regions: Annotated[int, Doc("regions of all wafers")]
    used_rows: Annotated[int, Doc("rows of a wafer's mesh up to the last that a region is on")]
    used_cols: Annotated[int, Doc("columns of a wafer's mesh up to the last that a region is on")]
    turned: Annotated[bool, Doc("whether stages are on the mesh with rows and columns in each other's place")]
    mapping: Annotated[
        str, Doc("mapping; the one that was chosen where `auto` was asked for; a mapping file by its name")
    ]
    prefill: Annotated[str, Doc("matrix product of prefill")]
    prefill_chunks: Annotated[tuple[int, ...], Doc("tokens of each chunk of the prompts, in order")]
    padding_fraction: Annotated[float, Doc("weight elements in SRAM that are padding")]
    cut_bytes_per_token: Annotated[int, Doc("sent from region to region for a decoded token", "B")]
    element_bytes: Annotated[int, Doc("an element of activations", "B")]
    experts: Annotated[ExpertsResult | None, Doc("experts of a layer; of models that have them")] = None
    stages: Annotated[tuple[StageResult, ...], Doc("stages, in the order of layers")]
    context: Annotated[int | None, Doc("tokens that a user's KV cache has room for; of estimate and compile")] = None

    def mapping_file(self) -> str:
        """Return the stages as the text of a mapping file, as `wse.studies.options.mapping_file` reads it.

        Raises:
            BadInput: a stage spans wafers, or is on the PEs of another.
        """
        places = {(stage.wafer, stage.row, stage.col) for stage in self.stages}
        if len(places) < len(self.stages) or any(stage.wafers > 1 for stage in self.stages):
            message = f"--write-mapping: a mapping file cannot list regions of --mapping {self.mapping}; choose another"
            raise BadInput(message)
        regions = [_as_listed(stage) for stage in self.stages]
        return "\n".join(["turned = true\n"] * self.turned + regions)


def _as_listed(stage: StageResult) -> str:
    """Return a stage as a table of a mapping file."""
    keys = {key: getattr(stage, key) for key in ("wafer", "row", "col", "rows", "cols")} | {"layers": [*stage.layers]}
    keys |= {"parts": [*stage.parts]} if stage.cuts_layers else {}
    return "[[regions]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def model_result(spec: ModelSpec, program: Program, *, weights: str | None = None) -> ModelResult:
    """Return the model of a Program, with the bytes of all its tensors as the Program holds them, and ``--weights``."""
    return ModelResult(
        name=spec.name,
        parameters=parameter_count(spec),
        dtype=program.weight_type,
        activations=program.element_type("act"),
        accumulate=program.element_type("acc"),
        bytes=stored_bytes(spec, program.weight_type, ELEMENT_BYTES[program.element_type("act")]),
        weights=weights,
    )


def wafer_result(
    wafer: WaferSpec,
    *,
    sram_bytes_per_pe: int | None = None,
    colours: int | None = None,
    replaced: Mapping[str, float] | None = None,
) -> WaferResult:
    """The wafer that programs see, with its SRAM, its colours and the numbers ``replaced``, where they are given."""
    return WaferResult(
        name=wafer.name,
        rows=wafer.mesh_rows,
        cols=wafer.mesh_cols,
        clock_hz=wafer.clock_hz,
        sram_bytes_per_pe=sram_bytes_per_pe,
        colours=colours,
        replaced=replaced or None,
    )


def system_result(program: Program, *, context: int | None = None) -> SystemResult:
    """Return the wafers, the mapping and the stages of a Program, with the context where it is given."""
    return SystemResult(
        wafers=program.wafers,
        regions=len(program.stages),
        used_rows=max(stage.rect.row + stage.rect.rows for stage in program.stages),
        used_cols=max(stage.rect.col + stage.rect.cols for stage in program.stages),
        turned=program.turned,
        mapping=program.mapping_name,
        prefill=program.prefill_name,
        prefill_chunks=tuple(phase.tokens for phase in program.prefill),
        padding_fraction=program.padding_fraction,
        cut_bytes_per_token=cut_bytes_per_token(program),
        element_bytes=ELEMENT_BYTES[program.element_type("act")],
        experts=_experts(program),
        stages=tuple(_stage(stage) for stage in program.stages),
        context=context,
    )


def _stage(stage: Stage) -> StageResult:
    return StageResult(
        wafer=stage.wafer,
        wafers=stage.span,
        row=stage.rect.row,
        col=stage.rect.col,
        rows=stage.rect.rows,
        cols=stage.rect.cols,
        layers=(stage.first_layer, stage.last_layer - 1) if stage.last_layer > stage.first_layer else (),
        parts=(stage.first_part, stage.last_part - 1) if stage.last_layer > stage.first_layer else (),
        attention=_attention(stage),
        embedding=stage.has_embedding,
        head=stage.has_head,
    )


def _attention(stage: Stage) -> tuple[int, ...]:
    """Return the first and the last column that attention works on; none where the stage has no layer's."""
    first, cols = stage.attention
    return (first, first + cols - 1) if stage.has_attention else ()


def _experts(program: Program) -> ExpertsResult | None:
    """Return the experts of a layer; None for a model without."""
    mixtures = [mixture for mixture in program.mixtures if mixture is not None]
    if not mixtures:
        return None
    most = max(int(mixture.by_column.shape[1]) for mixture in mixtures)
    return ExpertsResult(count=mixtures[0].count, active=mixtures[0].active, on_a_column=most)


def cut_bytes_per_token(program: Program) -> int:
    """Return the bytes that one decoded token sends from region to region, over the mesh and between wafers."""
    phase = program.decode
    moves = np.flatnonzero(transfer_steps(phase.steps, lambda kind: kind.by_place)).tolist()
    return sum(transfer_of(program, phase, step, program.cache_slots(0)).handed_bytes for step in moves)


def model_line(model: ModelResult) -> str:
    """Name, size and number formats of a model."""
    activations = "" if model.activations == model.dtype else f"activations as {model.activations}, "
    return (
        f"{printable(model.name)}: {count(model.parameters)} parameters, {in_bytes(model.bytes)} "
        f"as {model.dtype}, {activations}accumulation in {model.accumulate}"
    )


def used_text(wafer: WaferResult, system: SystemResult) -> str:
    """Return the rectangle of a wafer's PEs that regions are on, and its share.

    Nothing where it is about all of them.
    """
    used = system.used_rows * system.used_cols / (wafer.rows * wafer.cols)
    if used >= ABOUT_ALL:
        return ""
    return f"{system.used_rows}x{system.used_cols} in use, {percent(used)}"


def placement_table(model: ModelResult, wafer: WaferResult, system: SystemResult, note: str | None = None) -> Table:
    """Return a table of the wafer, the model, the place of the model on the wafer, and the ``note`` of the result."""
    stages = [stage for stage in system.stages if stage.layers or stage.embedding or stage.head]
    shapes = sorted({(s.rows, s.cols) for s in stages})
    shape = " or ".join(f"{rows}x{cols}" for rows, cols in shapes)
    span = f" on each of {stages[0].wafers} wafers" if stages[0].wafers > 1 else ""
    chunks = system.prefill_chunks
    tokens = plural(sum(chunks), "token")
    passes = "in one chunk" if len(chunks) == 1 else f"in {len(chunks)} chunks"
    wafers = wafer_line(wafer.name, wafer.rows, wafer.cols, wafer.clock_hz, system.wafers)
    used = used_text(wafer, system)
    rows = [
        ("wafer", f"{wafers}; {used}" if used else wafers),
        *([("set", " ".join(setting_texts(wafer.replaced)))] if wafer.replaced else []),
        ("model", model_line(model)),
        ("mapping", f"{system.mapping}: {plural(len(stages), 'region')} of {shape} PEs{span}, {_layers(stages)}"),
        ("prefill", f"{tokens} {passes}, matrix product {system.prefill}"),
        ("padding", f"{percent(system.padding_fraction)} of the weight elements in SRAM"),
    ]
    if narrow := sorted({s.attention[1] - s.attention[0] + 1 for s in stages if s.narrows_attention}):
        columns = " or ".join(map(str, narrow))
        rows.insert(3, ("attention", f"on the middle {columns} columns of each region that has more"))
    if model.weights is not None:
        rows.insert(2, ("weights", f"{model.weights}: not the weights of the model, so its tokens are meaningless"))
    experts = system.experts
    if experts is not None:
        spread = experts.on_a_column == experts.count
        where = "each on all columns" if spread else f"at most {plural(experts.on_a_column, 'expert')} per column"
        rows.insert(-2, ("experts", f"{experts.active} of {experts.count} per token, {where}"))
    if note is not None:
        rows.append(("note", printable(note)))
    return pair_table(rows, "Placement")


def _layers(stages: Sequence[StageResult]) -> str:
    layers = [s.layers[1] - s.layers[0] + 1 if s.layers else 0 for s in stages]
    if len(stages) == 1:
        return f"used by all {plural(layers[0], 'layer')}"
    low, high = min(layers), max(layers)
    some = plural(low, "layer") if low == high else f"{low} to {high} layers"
    cut = len({stage.layers[0] for stage in stages if stage.layers and stage.parts[0]})
    return f"{some} each" + (f", {cut} of them split" if cut else "")
