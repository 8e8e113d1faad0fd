"""Names of tensors in files, from ours: what the files of most families have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wse.models.family import Piece, WantedTensor
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes

Shape = tuple[int, ...]
Cut = Callable[[str, int, Shape], tuple[Piece, ...]]
"""Our name without ``layers.I.``, I (-1 outside the layers) and our shape, to pieces; none for a tensor of its own."""

NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "embedding": "model.embed_tokens.weight",
        "final_norm": "model.norm.weight",
        "head": "lm_head.weight",
        "attention_norm": "input_layernorm.weight",
        **{name: f"self_attn.{name}_proj.weight" for name in "qkvo"},
        **{f"{name}_norm": f"self_attn.{name}_norm.weight" for name in "qk"},
        "mlp_norm": "post_attention_layernorm.weight",
        **{name: f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")},
    }
)
"""Llama's; of a layer's tensors behind ``model.layers.I.``."""

LAYERS: Final = "model.layers."


def no_cut(name: str, layer: int, shape: Shape) -> tuple[Piece, ...]:
    """Every tensor has a name of its own in the file."""
    return ()


def wanted_tensors(
    spec: ModelSpec, names: Mapping[str, str] = NAMES, layers: str = LAYERS, cut: Cut = no_cut
) -> Iterator[WantedTensor]:
    """Every tensor of the model: what ``cut`` gives, or the file's tensor of that name as it is.

    Names of a layer's tensors stand behind ``layers`` and its index. What is added after a projection or norm has the
    name of that with ``bias`` in the place of ``weight``.
    """
    for name, shape in tensor_shapes(spec).items():
        layer, inside, at = -1, name, ""
        if name.startswith("layers."):
            _, index, inside = name.split(".", 2)
            layer, at = int(index), f"{layers}{index}."
        pieces = cut(inside, layer, shape)
        if not pieces:
            pieces = (Piece(file_name=at + _file_name(inside, names), file_shape=shape),)
        yield WantedTensor(name=name, pieces=pieces)


def _file_name(name: str, names: Mapping[str, str]) -> str:
    if name in names:
        return names[name]
    return names[name.removesuffix("_bias")].removesuffix("weight") + "bias"


def plain_tensors(spec: ModelSpec, held: Collection[str]) -> Iterator[WantedTensor]:
    """Every tensor under Llama's name."""
    return wanted_tensors(spec)


def split_halves(size: int) -> NDArray[np.intp]:
    """Rows that put rotated pairs of neighbours, (0, 1), (2, 3) and so on, into split halves."""
    return np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])


def of_every_head(heads: int, size: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The ``rows`` of each of ``heads`` heads of ``size`` rows."""
    return (np.arange(heads)[:, None] * size + rows).reshape(-1)
