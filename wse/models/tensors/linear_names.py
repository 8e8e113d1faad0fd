"""Places of the tensors of linear attention and gated attention in files of Qwen models."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.models.family import FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import SCALED_SHARED_NAMES
from wse.models.tensors.tensor_names import NAMES, Shape, rows_of_heads

HYBRID_NAMES: Final = {
    **NAMES,
    **SCALED_SHARED_NAMES,
    "delta.log_rate": "linear_attn.A_log",
    "delta.decay_bias": "linear_attn.dt_bias",
    "delta.norm": "linear_attn.norm.weight",
    "delta.o": "linear_attn.out_proj.weight",
}
"""Names of tensors of a layer that are stored separately."""


def hybrid_slices(name: str, spec: ModelSpec, prefix: str, shape: Shape) -> tuple[FileSlice, ...]:
    """Return where the checkpoint of a hybrid model stores a tensor that is part of a larger one.

    A hybrid model has layers with linear attention and layers with full attention. Its checkpoint
    has two tensors that wse divides into several:

    - the queries and gates of full attention, head by head
    - the convolutions of queries, keys and values of linear attention

    The result is () for all other tensors.

    Args:
        name: Name of the tensor in wse, without the layer prefix, such as ``q_gate``.
        spec: Specification of the model.
        prefix: Start of the layer's names in the file.
        shape: Shape of the tensor in wse.
    """
    if name.removesuffix("_bias") in ("q", "q_gate"):
        size, suffix = spec.head_size, "bias" if name.endswith("_bias") else "weight"
        first = size if name.startswith("q_gate") else 0
        return (
            FileSlice(
                file_name=f"{prefix}self_attn.q_proj.{suffix}",
                file_shape=(2 * shape[0], *shape[1:]),
                rows=rows_of_heads(spec.head_count, 2 * size, np.arange(first, first + size)),
            ),
        )
    if name.startswith("delta.conv_"):
        channels, rows = channel_rows(name[-1], spec)
        file_shape = (channels, 1, shape[1])
        return (FileSlice(file_name=f"{prefix}linear_attn.conv1d.weight", file_shape=file_shape, index=(rows, 0)),)
    return ()


def channel_rows(name: str, spec: ModelSpec) -> tuple[int, slice]:
    """Return which channels of linear attention's convolution belong to ``q``, ``k`` or ``v``.

    Args:
        name: ``q``, ``k`` or ``v``.
        spec: Specification of the model.

    Returns:
        The total number of channels, and the range of channels that belong to ``name``.
    """
    linear = spec.linear
    assert linear is not None
    keys, values = linear.key_heads * linear.key_size, linear.value_heads * linear.value_size
    first = "qkv".index(name) * keys
    return 2 * keys + values, slice(first, first + (values if name == "v" else keys))
