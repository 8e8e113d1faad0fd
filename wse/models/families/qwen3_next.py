"""Qwen3-Next: linear attention in most layers, gated attention in the others, and experts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import require_class
from wse.models.configs.expert_config import sparse_step_layers
from wse.models.configs.linear_config import add_scaled_mixture, read_hybrid
from wse.models.family import CanonicalTensor, Family, FileSlice, harmless_names
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_slices
from wse.models.tensors.linear_names import HYBRID_NAMES, hybrid_slices
from wse.models.tensors.tensor_names import LAYERS, Shape, canonical_tensors, rows_of_heads


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Qwen3-Next model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Qwen3NextForCausalLM")
    has_experts = sparse_step_layers(config)
    spec = read_hybrid(config)
    config.require("use_sliding_window", (False,), "no layer has a window; supported: false")
    return add_scaled_mixture(config, spec, has_experts)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Qwen3-Next model with its location in a checkpoint.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect how experts are stored.
    """

    def slices_of(name: str, layer: int, shape: Shape) -> tuple[FileSlice, ...]:
        """Return where the checkpoint stores one tensor of the model, as slices of its tensors.

        The result is () for a tensor that the checkpoint stores as it is. For example, the queries,
        keys and values of linear attention are not: the checkpoint stores them in one matrix.

        Args:
            name: Name of the tensor in wse, without the layer prefix.
            layer: Index of the layer; -1 outside the layers.
            shape: Shape of the tensor in wse.
        """
        prefix = f"{LAYERS}{layer}."
        slices = hybrid_slices(name, spec, prefix, shape)
        if not slices and name.startswith("delta.") and name not in HYBRID_NAMES:
            return (_delta_inputs(name[-1], spec, prefix),)
        return slices or expert_slices(name, spec, f"{prefix}mlp.experts", file_names)

    return canonical_tensors(spec, HYBRID_NAMES, slices_of=slices_of)


def _delta_inputs(name: str, spec: ModelSpec, prefix: str) -> FileSlice:
    """Return where the checkpoint stores one of the input projections of linear attention.

    wse has six projections: ``q``, ``k``, ``v``, ``z`` (gate), ``b`` (write strength) and ``a``
    (decay). The checkpoint stores them in two matrices, ``in_proj_qkvz`` and ``in_proj_ba``. Each
    matrix contains all rows of key head 0, then all rows of key head 1, and so on.

    Args:
        name: Name of the projection, such as ``q``.
        spec: Specification of the model.
        prefix: Start of the layer's names in the file.
    """
    linear = spec.linear
    assert linear is not None
    values = linear.values_per_key * linear.value_size
    matrix, sizes = "qkvz", {"q": linear.key_size, "k": linear.key_size, "v": values, "z": values}
    if name in "ba":
        matrix, sizes = "ba", dict.fromkeys("ba", linear.values_per_key)
    rows_per_head = sum(sizes.values())
    first = sum(size for part, size in sizes.items() if matrix.index(part) < matrix.index(name))
    return FileSlice(
        file_name=f"{prefix}linear_attn.in_proj_{matrix}.weight",
        file_shape=(linear.key_heads * rows_per_head, spec.hidden_size),
        rows=rows_of_heads(linear.key_heads, rows_per_head, np.arange(first, first + sizes[name])),
    )


FAMILY: Final = Family(
    model_types=("qwen3_next",), read=read, tensors=tensors, harmless_tensors=harmless_names(r"mtp\..*")
)
