"""Locations of ops' outputs: addresses in the steps of a Program, and the features on each PE.

The division of features among PEs is read from the Program's own tiles. Logits are divided as in
`wse.compiler.passes.shard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.arrays import I32
from wse.models.op import Op
from wse.models.spec import ModelSpec
from wse.number_formats import codes_name
from wse.program.isa.instructions import CODES, KERNELS, kernel_named
from wse.program.isa.operands import VIEWS
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS, Phase, Slots, StepKind
from wse.program.transfers.host_streams import LogitsOut
from wse.program.transfers.transfer_types import is_of_type, transfer_of
from wse_mappings.cuts.split import padded_blocks

_Outputs = dict[str, tuple[str, ...]]
_NORM: Final[_Outputs] = {"rms_scale": ("out",), "layer_scale": ("out",)}
_ACTIVATED: Final[_Outputs] = {"activate": ("out",), "activate_share": ("out",)}
_STREAM: Final[_Outputs] = {"residual_add": ("x",), "store": ("out",)}  # `store` if a norm precedes the sum
_OUTPUT_OPERANDS: Final[dict[str, _Outputs]] = {
    "embedding": {"store": ("out",)},
    "norm": _NORM,
    "unit_norm": _NORM,
    "block_sum": {"add": ("x",)},
    "post_norm": {"add": ("x",)},
    "stream_scale": {"apply_gate": ("x",)},
    "qkv": {"rope": ("q", "k", "v"), "split_heads": ("q", "k", "v")},
    "attention": {"attention_finish": ("out",)},
    "output": _STREAM,
    "latent_output": _STREAM,
    "delta_norm": {"apply_gate": ("x",)},
    "delta_output": _STREAM,
    "gate_up": _ACTIVATED,
    "down": _STREAM,
    "router": {"router_choose": ("ids", "weights")},
    "experts_down": _STREAM,
    "shared_gate_up": _ACTIVATED,
    "shared_down": _STREAM,
    "head": {"argmax_fold": ("logits",)},
}
"""Kernels and operands that contain the output of an op, by the type of the op.

The last step of the op with one of these kernels counts.
"""

_AS_HIDDEN: Final = ("attention_norm", "mlp_norm", "final_norm", "embedding")
"""Tensors that are divided among rows like the hidden vector."""

READABLE: Final = frozenset(_OUTPUT_OPERANDS)
"""Types of ops whose outputs can be read.

Outputs of other ops depend on the selected experts, or alternate between rows and columns.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPart:
    """Location of a part of an op's output on the PEs.

    Attributes:
        ready_step: Step after which the part can be read.
        stage: Stage whose PEs store the part.
        view: Name of the SRAM view (element type) of its elements.
        address: Address of the first element of the first token, on every PE.
        cut: int32 ``[PEs of a line, n]``, indices of the output features that each PE of a row or
            column stores; -1 for padding.
        axis: ROWS if the PEs of a row store different features, COLUMNS if the PEs of a column do.
        line: Row or column to read. Logits are stored only on this row. Other outputs are the same
            on all rows (or columns).
    """

    ready_step: int
    stage: int
    view: str
    address: int
    cut: I32
    axis: int
    line: int = 0


def at_the_end(op: Op) -> bool:
    """Return True if an op (node of the model graph) comes after all layers.

    Such an op processes only the last token of a prompt.
    """
    return op.layer < 0 and op.kind != "embedding"


def shape_of(op: Op, spec: ModelSpec) -> tuple[int, ...]:
    """Return the shape of an op's output for one token, such as (heads, head size)."""
    spec = spec if op.layer < 0 else spec.with_heads_of(spec.layers[op.layer])
    match op.kind:
        case "qkv":
            return spec.head_count + 2 * spec.kv_head_count, spec.head_size
        case "attention":
            return spec.head_count, spec.head_size
        case "delta_norm":
            assert spec.linear is not None
            return spec.linear.value_heads, spec.linear.value_size
        case "gate_up":
            return (spec.ffn_size,)
        case "shared_gate_up":
            return (0 if spec.experts is None else spec.experts.shared_size,)
        case "router":
            return 2, 0 if spec.experts is None else spec.experts.active
        case "head":
            return (spec.vocab_size,)
        case _:
            return (spec.hidden_size,)


def parts_of(
    program: Program, spec: ModelSpec, phase: Phase, op: Op, steps: Sequence[int], slots: Slots
) -> list[OutputPart]:
    """Return where the PEs store the parts of an op's output.

    The result is empty in these cases:

    - a norm that is merged into a matrix product, because no step stores its output
    - queries, keys and values if the attention scores are scaled instead of the queries
    - queries, keys and values of gated attention, because several steps store them

    Args:
        program: The compiled Program.
        spec: Description of the model.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        op: The op.
        steps: Steps of the op in the phase.
        slots: For each stage (a group of layers), the number of cached tokens on its fullest row of
            PEs.
    """
    if op.kind == "head":
        return _logits(program, phase, steps, slots)
    if op.kind == "qkv" and _scales_scores(program, phase, op.layer):
        return []
    kernels = {CODES[kernel]: names for kernel, names in _OUTPUT_OPERANDS[op.kind].items()}
    output_steps = [s for s in steps if phase.steps.computes(s) and int(phase.steps.code[s]) in kernels]
    if not output_steps:
        return []
    step = output_steps[-1]
    kernel, stage = KERNELS[phase.steps.code[step]], int(phase.steps.stage[step])
    address, views = kernel.by_name(_operands(phase, step, slots)), kernel.views
    axis, cuts = _cuts(program, spec, op, stage, on_mesh=phase.on_mesh and not at_the_end(op))
    return [
        OutputPart(ready_step=steps[-1], stage=stage, view=views[name], address=address[name], cut=cut, axis=axis)
        for name, cut in zip(kernels[int(phase.steps.code[step])], cuts, strict=True)
    ]


def _scales_scores(program: Program, phase: Phase, layer: int) -> bool:
    """Return True if a layer applies its query norm to the attention scores, not to the queries.

    The layer then has a step with the kernel ``scale_heads``.

    Args:
        program: The compiled Program.
        phase: The phase whose steps are searched.
        layer: Index of the layer.
    """
    is_scaling = (phase.steps.kind == StepKind.COMPUTE) & (phase.steps.code == CODES["scale_heads"])
    return layer in np.array(program.op_layers)[phase.steps.op[is_scaling]]


def _cuts(program: Program, spec: ModelSpec, op: Op, stage: int, *, on_mesh: bool) -> tuple[int, list[I32]]:
    """Return which features of an op's outputs each PE stores.

    Args:
        program: The compiled Program.
        spec: Description of the model.
        op: The op.
        stage: Stage that runs the op.
        on_mesh: Whether the tokens of the phase are partitioned across the rows of PEs, so that the
            PEs of a row store different elements of a hidden vector.

    Returns:
        ROWS if the PEs of a row store different features, COLUMNS if the PEs of a column do; and,
        for each output, the features on each PE of this row or column, int32 ``[PEs, n]``, with -1
        for padding.
    """
    match op.kind:
        case "qkv":
            spec = spec.with_heads_of(spec.layers[op.layer])
            widths = [heads * spec.head_size for heads in (spec.head_count, spec.kv_head_count, spec.kv_head_count)]
            cuts = [_outputs_of(program, stage, tensor) for tensor in op.weights]
            firsts = [0, widths[0], widths[0] + widths[1]]
            return ROWS, [np.where(cut < 0, -1, cut + first) for cut, first in zip(cuts, firsts, strict=True)]
        case "attention":
            return ROWS, [_outputs_of(program, stage, f"layers.{op.layer}.q")]
        case "delta_norm":
            return ROWS, [_outputs_of(program, stage, f"layers.{op.layer}.delta.v")]
        case "gate_up" | "shared_gate_up":
            return ROWS, [_outputs_of(program, stage, op.weights[0])]
        case "router":  # the same on every PE
            assert spec.experts is not None
            id_and_weight_cuts = np.arange(2 * spec.experts.active, dtype=np.int32).reshape(2, 1, -1)
            return COLUMNS, list(id_and_weight_cuts)
        case _:
            return ROWS if on_mesh else COLUMNS, [_hidden_of(program, stage)]


def _hidden_of(program: Program, stage: int) -> I32:
    """Return which elements of a hidden vector each PE of a line stores, int32 ``[PEs, n]``.

    The division is the same as for certain weights, from which it is read: the gains of a norm, or
    the embedding.
    """
    parts = (part for tile in program.tiles if tile.stage == stage for part in tile.parts)
    return next(part.inner for part in parts if part.tensor.rpartition(".")[2] in _AS_HIDDEN)


def _outputs_of(program: Program, stage: int, tensor: str) -> I32:
    """Return the outputs of a linear layer that each column of PEs computes, int32 ``[cols, n]``.

    The result is read from the weight tiles that decode uses. An index of -1 is padding.

    Args:
        program: The compiled Program.
        stage: Index of the stage.
        tensor: Name of the weight matrix.
    """
    names = (tensor, codes_name(tensor))
    tiles = (tile for tile in program.tiles if tile.stage == stage and not tile.name.startswith("prefill."))
    return next(part.inner for tile in tiles for part in tile.parts if part.tensor in names and part.outer is not None)


def _logits(program: Program, phase: Phase, steps: Sequence[int], slots: Slots) -> list[OutputPart]:
    """Return where the parts of the logits are stored.

    Each chunk of the vocabulary is one part. The logits are stored on the row of PEs on which they
    are summed.
    """
    parts: dict[int, OutputPart] = {}
    argmax, logits = kernel_named("argmax_fold"), is_of_type(phase.steps, LogitsOut)
    tokens = 1 if phase.name == "prefill" else phase.tokens
    for step in steps:
        a, stage = _operands(phase, step, slots), int(phase.steps.stage[step])
        if phase.steps.computes(step) and KERNELS[phase.steps.code[step]] is argmax:
            operands = argmax.by_name(a)
            first, n, address, view = operands["first"], operands["n"], operands["logits"], "acc"
        elif logits[step]:
            transfer = transfer_of(program, phase, step, slots)
            assert isinstance(transfer, LogitsOut)
            first, n, address = transfer.first, transfer.elements // tokens, transfer.source
            view = VIEWS[phase.steps.view[step]]
        else:
            continue
        cut = padded_blocks(program.vocab_size, program.stages[stage].cols)[:, first : first + n]
        part = OutputPart(
            ready_step=step - 1, stage=stage, view=view, address=address, cut=cut, axis=ROWS, line=program.root_row
        )
        parts.setdefault(first, part)
    return list(parts.values())


def _operands(phase: Phase, step: int, slots: Slots) -> list[int]:
    """Return the operand values of a step in the first iteration of its loop."""
    return phase.steps.operands(step, slots, phase.round_of(step, 0))
