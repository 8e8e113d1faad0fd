"""Mixtral: Mistral with a mixture of experts in every layer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.layer_kinds import equal_layers, read_window
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors
from wse.models.tensors.tensor_names import LAYERS, NAMES

UNSTATED_BASE: Final = 1e6
PUBLISHED_BLOCK, MEMORY_BLOCK = "block_sparse_moe", "mlp"


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Mixtral model from its config.json.

    Mixtral applies a softmax to the scores of the selected experts. This is equivalent to a softmax
    over all experts that is renormalised over the selected experts, which is the default of
    `Experts`.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "MixtralForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config,
        heads,
        rope=read_rope(config, heads.size, base=UNSTATED_BASE),
        layers=equal_layers(config, read_window(config)),
    )
    return with_mixture(spec, read_experts(config, "intermediate_size"))


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Mixtral model with its location in a checkpoint.

    Published files call the feed-forward block ``block_sparse_moe``. transformers 5 calls it
    ``mlp`` in memory, which is accepted as well.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect the format variant.
    """
    block = PUBLISHED_BLOCK if f"{LAYERS}0.{PUBLISHED_BLOCK}.gate.weight" in file_names else MEMORY_BLOCK
    names = {**NAMES, "router": f"{block}.gate.weight"}
    return expert_tensors(spec, names, file_names, block, ("w1", "w3", "w2"))


FAMILY: Final = Family(model_types=("mixtral",), read=read, tensors=tensors)
