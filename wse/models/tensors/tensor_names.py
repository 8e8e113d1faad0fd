"""Names and places of tensors in files, from ours: what the files of most families have in common.

Matrices of experts are one by one there, or all experts of a layer in one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wse.models.family import Piece, WantedTensor
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes
from wse.models.tensors.tensor_entry import Index

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
    """Return no pieces: every tensor has a name of its own in the file."""
    return ()


def wanted_tensors(
    spec: ModelSpec, names: Mapping[str, str] = NAMES, layers: str = LAYERS, cut: Cut = no_cut
) -> Iterator[WantedTensor]:
    """Yield every tensor of the model: the pieces that ``cut`` returns, or the file's tensor of that name.

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


def plain_tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor under Llama's name."""
    return wanted_tensors(spec)


def split_halves(size: int) -> NDArray[np.intp]:
    """Return the rows that turn rotated pairs of neighbours, (0, 1), (2, 3) and so on, into split halves."""
    return np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])


def rows_of_heads(heads: int, size: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the ``rows`` of each of ``heads`` heads of ``size`` rows."""
    return (np.arange(heads)[:, None] * size + rows).reshape(-1)


GATE_UP: Final = ("experts.gate", "experts.up")
DOWN: Final = "experts.down"
SIGMOID_NAMES: Final = {
    "router": "mlp.gate.weight",
    "router_correction": "mlp.gate.e_score_correction_bias",
    **{f"shared.{part}": f"mlp.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")},
}
"""The rest of a mixture of experts as DeepSeek-V3 writes it."""
PARTS: Final = ("gate_proj", "up_proj", "down_proj")


def expert_pieces(
    name: str, spec: ModelSpec, at: str, file_names: Collection[str], parts: tuple[str, str, str] = PARTS
) -> tuple[Piece, ...]:
    """Return the pieces of the canonical tensor ``name``; empty where it is not a matrix of experts.

    Files hold one matrix an expert, ``at.E.PART.weight`` with ``parts`` for gate, up and down. What transformers 5
    holds in memory is accepted too: ``at.gate_up_proj`` [experts, 2 width, hidden] and ``at.down_proj``.
    """
    if name not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    if f"{at}.down_proj" in file_names:
        return stacked_pieces(name, spec, at, transposed=False)
    experts, hidden_size = spec.experts, spec.hidden_size
    shape = (hidden_size, experts.ffn_size) if name == DOWN else (experts.ffn_size, hidden_size)
    part = parts[(*GATE_UP, DOWN).index(name)]
    return tuple(Piece(file_name=f"{at}.{expert}.{part}.weight", file_shape=shape) for expert in range(experts.count))


def stacked_pieces(
    name: str, spec: ModelSpec, at: str, *, transposed: bool, interleaved: bool = False
) -> tuple[Piece, ...]:
    """Return the pieces of the canonical tensor ``name`` in ``gate_up_proj`` and ``down_proj``; empty where it is in
    neither.

    The tensors are [experts, out, in], or [experts, in, out] with ``transposed``. Outputs of gate and up stand one
    behind the other, or ``interleaved`` in turn. Added vectors are ``..._bias`` [experts, out].
    """
    matrix, bias = name.removesuffix("_bias"), name.endswith("_bias")
    if matrix not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    count, width, hidden_size = spec.experts.count, spec.experts.ffn_size, spec.hidden_size
    file_name = f"{at}.{'down' if matrix == DOWN else 'gate_up'}_proj"
    outputs, inputs = (hidden_size, width) if matrix == DOWN else (2 * width, hidden_size)
    output_slice = slice(None) if matrix == DOWN else _half(GATE_UP.index(matrix), width, interleaved=interleaved)
    if bias:
        return tuple(
            Piece(file_name=f"{file_name}_bias", file_shape=(count, outputs), index=(expert, output_slice))
            for expert in range(count)
        )
    shape = (count, inputs, outputs) if transposed else (count, outputs, inputs)
    inner_index: Index = (slice(None), output_slice) if transposed else (output_slice, slice(None))
    return tuple(
        Piece(file_name=file_name, file_shape=shape, index=(expert, *inner_index), transposed=transposed)
        for expert in range(count)
    )


def _half(which: int, width: int, *, interleaved: bool) -> slice:
    return slice(which, None, 2) if interleaved else slice(which * width, (which + 1) * width)
