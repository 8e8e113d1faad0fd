"""Map the expert matrices and routers of canonical tensors to the layouts of files.

Expert matrices are stored separately in some files and stacked in one tensor per layer in others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from wse.models.family import CanonicalTensor, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import Index
from wse.models.tensors.tensor_names import LAYERS, Shape, canonical_tensors

GATE_UP: Final = ("experts.gate", "experts.up")
DOWN: Final = "experts.down"
SIGMOID_NAMES: Final = {
    "router": "mlp.gate.weight",
    "router_correction": "mlp.gate.e_score_correction_bias",
    **{f"shared.{part}": f"mlp.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")},
}
"""Names of the router and the shared expert in files of DeepSeek-V3 and similar models."""
SCALED_SHARED_NAMES: Final = {
    "router": "mlp.gate.weight",
    "shared.scale": "mlp.shared_expert_gate.weight",
    **{f"shared.{part}": f"mlp.shared_expert.{part}_proj.weight" for part in ("gate", "up", "down")},
}
"""Names of the router and the scaled shared expert in files of Qwen2-MoE and Qwen3-Next."""
PARTS: Final = ("gate_proj", "up_proj", "down_proj")


def expert_slices(
    name: str, spec: ModelSpec, prefix: str, file_names: Collection[str], parts: tuple[str, str, str] = PARTS
) -> tuple[FileSlice, ...]:
    """Return where the checkpoint stores an expert matrix, as slices of its tensors.

    Usually, a checkpoint has one tensor per expert, ``prefix.E.PART.weight`` for expert E. The
    stacked layout of transformers 5 is accepted as well: ``prefix.gate_up_proj`` [experts, 2 width,
    hidden] and ``prefix.down_proj`` [experts, hidden, width]. The result is () for tensors that are
    not expert matrices.

    Args:
        name: Name of the tensor in wse, without the layer prefix.
        spec: Specification of the model.
        prefix: Start of the names in the file.
        file_names: Names of the tensors in the checkpoint, used to detect the layout.
        parts: Names of the gate, up and down matrices in the file.
    """
    if name not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    if f"{prefix}.down_proj" in file_names:
        return stacked_slices(name, spec, prefix, transposed=False)
    experts, hidden_size = spec.experts, spec.hidden_size
    shape = (hidden_size, experts.ffn_size) if name == DOWN else (experts.ffn_size, hidden_size)
    part = parts[(*GATE_UP, DOWN).index(name)]
    return tuple(
        FileSlice(file_name=f"{prefix}.{expert}.{part}.weight", file_shape=shape) for expert in range(experts.count)
    )


def expert_tensors(
    spec: ModelSpec,
    names: Mapping[str, str],
    file_names: Collection[str],
    block: str = "mlp",
    parts: tuple[str, str, str] = PARTS,
) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a model whose checkpoint differs from Llama's only in its experts.

    Args:
        spec: Specification of the model.
        names: Names in the file, keyed by the tensor's name in wse without the layer.
        file_names: Names of the tensors in the checkpoint.
        block: Name of the feed-forward block in the file, which contains ``experts``.
        parts: Names of the gate, up and down matrices in the file.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores an expert matrix, as slices of its tensors.

        The result is () for other tensors, which the checkpoint stores as they are.

        Args:
            name: Name of the tensor in wse, without the layer prefix, such as ``experts.up``.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        return expert_slices(name, spec, f"{LAYERS}{layer}.{block}.experts", file_names, parts)

    return canonical_tensors(spec, names, slices_of=slices_of)


def stacked_slices(
    name: str,
    spec: ModelSpec,
    prefix: str,
    *,
    transposed: bool,
    interleaved: bool = False,
    matrices: tuple[str, str] = ("gate_up_proj", "down_proj"),
) -> tuple[FileSlice, ...]:
    """Return where a checkpoint that stacks all experts in one tensor stores an expert tensor.

    The result is one slice per expert, or () if the tensor does not belong to experts. Biases are
    stored in tensors [experts, out] whose names have the suffix ``_bias``.

    Args:
        name: Name of the tensor in wse, without the layer prefix.
        spec: Specification of the model.
        prefix: Start of the names in the file.
        transposed: True if matrices are stored as [experts, in, out], false for [experts, out, in].
        interleaved: Whether the outputs of gate and up alternate. Otherwise all outputs of gate
            come first.
        matrices: Names of the matrix of gate and up, and of the matrix of down.
    """
    matrix, is_bias = name.removesuffix("_bias"), name.endswith("_bias")
    if matrix not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    count, width, hidden_size = spec.experts.count, spec.experts.ffn_size, spec.hidden_size
    file_name = f"{prefix}.{matrices[matrix == DOWN]}"
    outputs, inputs = (hidden_size, width) if matrix == DOWN else (2 * width, hidden_size)
    output_slice = slice(None) if matrix == DOWN else _half(GATE_UP.index(matrix), width, interleaved=interleaved)
    if is_bias:
        return tuple(
            FileSlice(file_name=f"{file_name}_bias", file_shape=(count, outputs), index=(expert, output_slice))
            for expert in range(count)
        )
    shape = (count, inputs, outputs) if transposed else (count, outputs, inputs)
    inner_index: Index = (slice(None), output_slice) if transposed else (output_slice, slice(None))
    return tuple(
        FileSlice(file_name=file_name, file_shape=shape, index=(expert, *inner_index), transposed=transposed)
        for expert in range(count)
    )


def _half(part: int, width: int, *, interleaved: bool) -> slice:
    """Return which outputs of a combined gate and up projection belong to one of the two.

    Args:
        part: 0 for gate, 1 for up.
        width: Number of outputs of each projection.
        interleaved: Whether their outputs alternate. Otherwise all outputs of gate come first.
    """
    return slice(part, None, 2) if interleaved else slice(part * width, (part + 1) * width)
