"""Result fields ``model``, ``wafer`` and ``system``: model, wafer, and placement stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count, stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.program.stage import Stage
from wse.program.transfers.transfer_types import transfer_of, transfer_steps
from wse.reports.result import Doc, Result
from wse_mappings.cuts.layer_parts import LAYER_PARTS


class ModelResult(Result):
    """The model and its element types."""

    name: Annotated[str, Doc("name of the model")]
    parameters: Annotated[int, Doc("number of parameters; tied parameters count once")]
    dtype: Annotated[str, Doc("element type of the weights of linear layers")]
    activations: Annotated[str, Doc("element type of activations, the KV cache and all other weights")]
    accumulate: Annotated[str, Doc("element type of sums")]
    bytes: Annotated[int, Doc("all tensors of the model in these types", "B")]
    weights: Annotated[str | None, Doc("`random:SEED` if weights are random; only in runs with `--weights`")] = None


class WaferResult(Result):
    """Properties of a wafer: name, mesh size (without dead PEs), clock, SRAM and colours."""

    name: Annotated[str, Doc("name of the wafer")]
    rows: Annotated[int, Doc("rows of PEs of its mesh")]
    cols: Annotated[int, Doc("columns of PEs of its mesh")]
    clock_hz: Annotated[float, Doc("clock", "Hz")]
    sram_bytes_per_pe: Annotated[int, Doc("SRAM of a PE", "B")]
    colours: Annotated[int, Doc("colours (each selects a route in every router) that its runtime leaves to programs")]
    replaced: Annotated[
        Mapping[str, float] | None, Doc("numbers of wafer and software profile that `--set` replaced; keys are names")
    ] = None


class ExpertsResult(Result):
    """Number of experts in a mixture-of-experts layer, and how many a column of PEs stores."""

    count: Annotated[int, Doc("number of experts of a layer")]
    active: Annotated[int, Doc("number of experts that a token uses")]
    on_a_column: Annotated[int, Doc("maximum number of experts of which a column of PEs stores a part")]


class StageResult(Result):
    """A pipeline stage: a range of consecutive layers, and the rectangle of PEs that runs them."""

    wafer: Annotated[int, Doc("index of its wafer, or of the first of its wafers")]
    wafers: Annotated[int, Doc("number of wafers that it spans")]
    row: Annotated[int, Doc("row of its first PE")]
    col: Annotated[int, Doc("column of its first PE")]
    rows: Annotated[int, Doc("rows of PEs, on each wafer")]
    cols: Annotated[int, Doc("columns of PEs, on each wafer")]
    layers: Annotated[tuple[int, ...], Doc("first and last layer; empty without layers")]
    parts: Annotated[
        tuple[int, ...],
        Doc(
            "first part of the first layer, last part of the last layer: 0 is attention, 1 to 8 are eighths of the "
            "feed-forward block"
        ),
    ]
    attention: Annotated[
        tuple[int, ...], Doc("first and last column of its region that compute attention; empty without attention")
    ]
    embedding: Annotated[bool, Doc("whether it has the embedding")]
    head: Annotated[bool, Doc("whether it has the output head, which computes logits")]

    @property
    def narrows_attention(self) -> bool:
        """Whether only some columns of the stage's PE rectangle compute attention."""
        return self.attention not in ((), (0, self.wafers * self.cols - 1))

    @property
    def cuts_layers(self) -> bool:
        """Whether the stage stores only parts of its first or last layer."""
        return self.parts not in ((), (0, LAYER_PARTS - 1))


class SystemResult(Result):
    """Placement of a compiled model: wafers, mapping, prefill chunks and stages."""

    wafers: Annotated[int, Doc("number of wafers")]
    regions: Annotated[int, Doc("number of regions on all wafers")]
    used_rows: Annotated[int, Doc("rows of a wafer's mesh, up to the last row of any region")]
    used_cols: Annotated[int, Doc("columns of a wafer's mesh, up to the last column of any region")]
    transposed: Annotated[bool, Doc("whether stages refer to a mesh whose rows and columns are exchanged")]
    mapping: Annotated[str, Doc("name of the mapping or mapping file; with `auto`, that of the chosen mapping")]
    prefill: Annotated[str, Doc("matrix product of prefill")]
    prefill_chunks: Annotated[tuple[int, ...], Doc("tokens of each chunk of the prompts, in order")]
    padding_fraction: Annotated[float, Doc("fraction of weight elements in SRAM that are padding")]
    cut_bytes_per_token: Annotated[int, Doc("bytes sent between regions for a token of each user", "B")]
    element_bytes: Annotated[int, Doc("size of an element of activations", "B")]
    experts: Annotated[ExpertsResult | None, Doc("experts of a layer; absent for models without experts")] = None
    stages: Annotated[tuple[StageResult, ...], Doc("stages, in the order of layers")]
    context: Annotated[int, Doc("capacity of a user's KV cache, in tokens")]

    def mapping_file(self) -> str:
        """Format the stages as a mapping file, which ``--mapping`` accepts.

        Raises:
            BadInput: A stage spans several wafers, or shares its PEs with another stage.
        """
        places = {(stage.wafer, stage.row, stage.col) for stage in self.stages}
        if len(places) < len(self.stages) or any(stage.wafers > 1 for stage in self.stages):
            raise BadInput(
                f"--write-mapping: a mapping file cannot list regions of --mapping {self.mapping}; choose another"
            )
        regions = [_as_listed(stage) for stage in self.stages]
        return "\n".join(["transposed = true\n"] * self.transposed + regions)


def _as_listed(stage: StageResult) -> str:
    """Format a stage as a ``[[regions]]`` table of a TOML mapping file."""
    keys = {key: getattr(stage, key) for key in ("wafer", "row", "col", "rows", "cols")} | {"layers": [*stage.layers]}
    keys |= {"parts": [*stage.parts]} if stage.cuts_layers else {}
    return "[[regions]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def model_result(spec: ModelSpec, program: Program, *, weights: str | None = None) -> ModelResult:
    """Return the name, size and element types of a compiled model.

    Args:
        spec: The model.
        program: The compiled model, which determines the element types and the size of the tensors.
        weights: ``random:SEED`` if the weights are random, else None.
    """
    return ModelResult(
        name=spec.name,
        parameters=parameter_count(spec),
        dtype=program.weight_type,
        activations=program.element_type("act"),
        accumulate=program.element_type("acc"),
        bytes=stored_bytes(spec, program.weight_type, ELEMENT_BYTES[program.element_type("act")]),
        weights=weights,
    )


def wafer_result(wafer: WaferSpec, replaced: Mapping[str, float] | None = None) -> WaferResult:
    """Return the name, clock and size of a wafer.

    The size is the number of rows and columns of PEs that programs can use.

    Args:
        wafer: Wafer type with its constants.
        replaced: Constants of the wafer or the software profile that the user overrode: new values,
            keyed by name.
    """
    return WaferResult.from_parts(
        wafer,
        rows=wafer.mesh_rows,
        cols=wafer.mesh_cols,
        colours=wafer.colours - wafer.reserved_colours,
        replaced=replaced or None,
    )


def system_result(program: Program) -> SystemResult:
    """Return how a compiled model is placed on wafers."""
    return SystemResult.from_parts(
        program,
        regions=len(program.stages),
        used_rows=max(stage.rect.row + stage.rect.rows for stage in program.stages),
        used_cols=max(stage.rect.col + stage.rect.cols for stage in program.stages),
        transposed=program.is_transposed,
        mapping=program.mapping_name,
        prefill=program.prefill_name,
        prefill_chunks=tuple(phase.tokens for phase in program.prefill),
        cut_bytes_per_token=cut_bytes_per_token(program),
        element_bytes=ELEMENT_BYTES[program.element_type("act")],
        experts=_experts(program),
        stages=tuple(_stage(stage) for stage in program.stages),
    )


def _stage(stage: Stage) -> StageResult:
    """Convert a pipeline stage of a compiled model to a result record."""
    first, cols = stage.attention
    return StageResult.from_parts(
        stage.rect,
        wafer=stage.wafer,
        wafers=stage.span,
        layers=(stage.first_layer, stage.last_layer - 1) if stage.last_layer > stage.first_layer else (),
        parts=(stage.first_part, stage.last_part - 1) if stage.last_layer > stage.first_layer else (),
        attention=(first, first + cols - 1) if stage.has_attention else (),
        embedding=stage.has_embedding,
        head=stage.has_head,
    )


def _experts(program: Program) -> ExpertsResult | None:
    """Return the number and placement of a layer's experts; None for models without experts."""
    mixtures = [mixture for mixture in program.mixtures if mixture is not None]
    if not mixtures:
        return None
    max_on_a_column = max(int(mixture.by_column.shape[1]) for mixture in mixtures)
    return ExpertsResult.from_parts(mixtures[0], on_a_column=max_on_a_column)


def cut_bytes_per_token(program: Program) -> int:
    """Return the bytes that all pipeline stages together send to their next stages per decode pass.

    Transfers within a wafer and between wafers both count.
    """
    phase = program.decode
    moves = np.flatnonzero(transfer_steps(phase.steps, lambda kind: kind.by_place)).tolist()
    empty = program.cache_slots(0)
    return sum(transfer_of(program, phase, step, empty).stage_transfer_bytes for step in moves)
