"""Map the expert matrices of canonical tensors to the layouts of files.

Expert matrices are stored separately in some files and stacked in one tensor per layer in others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from wse.models.family import CanonicalTensor, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import Index
from wse.models.tensors.tensor_names import LAYERS, NAMES, LayerTensor, canonical_tensors

GATE_UP: Final = ("experts.gate", "experts.up")
DOWN: Final = "experts.down"
SCALED_SHARED_NAMES: Final = {
    **NAMES,
    "shared.scale": "mlp.shared_expert_gate.weight",
    **{f"shared.{part}": f"mlp.shared_expert.{part}_proj.weight" for part in ("gate", "up", "down")},
}
"""Names of tensors, including the scaled shared expert, in files of Qwen2-MoE and Qwen3-Next."""
PARTS: Final = ("gate_proj", "up_proj", "down_proj")
NUMBERED_PARTS: Final = ("w1", "w3", "w2")
"""Names of the gate, up and down matrices in files of Mixtral and other families."""


def expert_slices(
    tensor: LayerTensor, block: str = "mlp", parts: tuple[str, str, str] = PARTS
) -> tuple[FileSlice, ...]:
    """Return where the checkpoint stores an expert matrix, as slices of its tensors.

    Usually, a checkpoint has one tensor per expert, ``BLOCK.experts.E.PART.weight`` for expert E.
    The stacked layout of transformers 5 is accepted as well: ``BLOCK.experts.gate_up_proj``
    [experts, 2 width, hidden] and ``BLOCK.experts.down_proj`` [experts, hidden, width]. The result
    is () for tensors that are not expert matrices.

    Args:
        tensor: Tensor to find.
        block: Name of the feed-forward block in the file, which contains ``experts``.
        parts: Names of the gate, up and down matrices in the file.
    """
    experts, hidden_size, prefix = tensor.spec.experts, tensor.spec.hidden_size, f"{tensor.prefix}{block}.experts"
    if tensor.name not in (*GATE_UP, DOWN) or experts is None:
        return ()
    if f"{prefix}.down_proj" in tensor.file_names:
        return stacked_slices(tensor, f"{block}.experts", transposed=False)
    shape = (hidden_size, experts.ffn_size) if tensor.name == DOWN else (experts.ffn_size, hidden_size)
    part = parts[(*GATE_UP, DOWN).index(tensor.name)]
    return tuple(
        FileSlice(file_name=f"{prefix}.{expert}.{part}.weight", file_shape=shape) for expert in range(experts.count)
    )


expert_tensors: Final = partial(canonical_tensors, rules=(expert_slices,))
"""Function that yields each tensor of a model whose checkpoint differs from Llama's only in its experts."""


def numbered_expert_tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a model whose files call the matrices of an expert w1, w2 and w3.

    Published files call the feed-forward block ``block_sparse_moe``. transformers 5 calls it
    ``mlp`` in memory, which is accepted as well.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect the format variant.
    """
    block = "block_sparse_moe" if f"{LAYERS}0.block_sparse_moe.gate.weight" in file_names else "mlp"
    router = {"router": f"{block}.gate.weight", "router_correction": f"{block}.e_score_correction_bias"}
    rule = partial(expert_slices, block=block, parts=NUMBERED_PARTS)
    return canonical_tensors(spec, file_names, {**NAMES, **router}, (rule,))


def stacked_slices(
    tensor: LayerTensor,
    block: str,
    *,
    transposed: bool,
    interleaved: bool = False,
    matrices: tuple[str, str] = ("gate_up_proj", "down_proj"),
) -> tuple[FileSlice, ...]:
    """Return where a checkpoint that stacks all experts in one tensor stores an expert tensor.

    The result is one slice per expert, or () if the tensor does not belong to experts. Biases are
    stored in tensors [experts, out] whose names have the suffix ``_bias``.

    Args:
        tensor: Tensor to find.
        block: Start of the names in the file, without the layer prefix.
        transposed: True if matrices are stored as [experts, in, out], false for [experts, out, in].
        interleaved: Whether the outputs of gate and up alternate. Otherwise all outputs of gate
            come first.
        matrices: Names of the matrix of gate and up, and of the matrix of down.
    """
    matrix, spec = tensor.matrix, tensor.spec
    if matrix not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    count, width, hidden_size = spec.experts.count, spec.experts.ffn_size, spec.hidden_size
    file_name = f"{tensor.prefix}{block}.{matrices[matrix == DOWN]}"
    outputs, inputs = (hidden_size, width) if matrix == DOWN else (2 * width, hidden_size)
    if matrix == DOWN:
        output_slice = slice(None)
    else:
        part = GATE_UP.index(matrix)
        output_slice = slice(part, None, 2) if interleaved else slice(part * width, (part + 1) * width)
    if tensor.name != matrix:
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
