"""Mixtral: Mistral with a mixture of experts in every layer; softmax over the chosen ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import add_experts, read_experts
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, Piece, WantedTensor
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import LAYERS, NAMES, Shape, expert_pieces, wanted_tensors

UNSTATED_BASE: Final = 1e6
OLD, NEW = "block_sparse_moe", "mlp"


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the spec of a Mixtral config. Dividing by the sum of the chosen scores is their softmax."""
    require_class(config, "MixtralForCausalLM")
    heads = read_heads(config, kv_count=True)
    layers = equal_layers(config, layer_count(config), read_window(config))
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="mixtral",
        heads=heads,
        rope=read_rope(config, heads.size, base=UNSTATED_BASE),
        layers=add_experts(layers, [True] * len(layers)),
    )
    return replace(spec, ffn_size=0, experts=read_experts(config, "intermediate_size"))


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor of a Mixtral checkpoint; transformers 5 calls the block ``mlp`` in memory."""
    block = OLD if f"{LAYERS}0.{OLD}.gate.weight" in file_names else NEW

    def cut(name: str, layer: int, shape: Shape) -> tuple[Piece, ...]:
        at = f"{LAYERS}{layer}.{block}.experts"
        return expert_pieces(name, spec, at, file_names, ("w1", "w3", "w2"))

    return wanted_tensors(spec, {**NAMES, "router": f"{block}.gate.weight"}, cut=cut)


FAMILY: Final = Family(model_types=("mixtral",), read=read, tensors=tensors)
