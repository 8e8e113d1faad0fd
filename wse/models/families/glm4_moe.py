"""GLM-4-MoE (GLM-4.5 to 4.7): half of each head rotated, experts chosen as in DeepSeek-V3, dense layers first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import layer_count, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import add_experts, layers_with_experts, read_sigmoid_experts, with_mixture
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, Piece, WantedTensor, harmless_names_beyond
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import LAYERS, NAMES, SIGMOID_NAMES, Shape, expert_pieces, wanted_tensors

UNSTATED_SHARE: Final = 0.5
UNSTATED_DENSE: Final = 1


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the spec of a GLM-4-MoE config. Only queries, keys and values have biases."""
    require_class(config, "Glm4MoeForCausalLM")
    heads = read_heads(config, kv_count=True)
    count = layer_count(config)
    chosen = layers_with_experts(config, count, UNSTATED_DENSE)
    spec = read_decoder(
        config,
        name,
        unstated_dtype,
        family="glm4_moe",
        heads=heads,
        rope=read_rope(config, heads.size, share=UNSTATED_SHARE),
        layers=add_experts(equal_layers(config, count, None), chosen),
    )
    experts = read_sigmoid_experts(config, groups=1, chosen_groups=1, scale=1.0)
    return replace(
        with_mixture(spec, chosen, experts),
        qkv_bias=config.flag("attention_bias", default=False),
        head_norm="rms" if config.flag("use_qk_norm", default=False) else "",
    )


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor of a GLM-4-MoE checkpoint."""

    def cut(name: str, layer: int, shape: Shape) -> tuple[Piece, ...]:
        return expert_pieces(name, spec, f"{LAYERS}{layer}.mlp.experts", file_names)

    return wanted_tensors(spec, {**NAMES, **SIGMOID_NAMES}, cut=cut)


FAMILY: Final = Family(
    model_types=("glm4_moe",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers"}),
    harmless_tensors=harmless_names_beyond,
)
