"""StableLM: layer norms, rotation of a part of each head, optional biases and parallel blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import read_decoder, read_heads, require_class
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import NAMES, canonical_tensors


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a StableLM model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "StableLmForCausalLM")
    heads = read_heads(config, requires_kv_count=True)
    spec = read_decoder(
        config, heads, rope=read_rope(config, heads.size, rotated_fraction=0.25), eps_key="layer_norm_eps"
    )
    config.require("qk_layernorm", (False,), "layer norms of heads are not supported; supported: false")
    return replace(
        spec,
        norm="layer",
        qkv_bias=config.flag("use_qkv_bias", default=False),
        parallel_blocks=config.flag("use_parallel_residual", default=False),
    )


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a StableLM model with its location in a checkpoint.

    If attention and feed-forward block run in parallel, they share one norm in the checkpoint. wse
    has a copy for each block.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint. Unused here.
    """
    shared_norm = {"mlp_norm": NAMES["attention_norm"]} if spec.parallel_blocks else {}
    return canonical_tensors(spec, file_names, {**NAMES, **shared_norm})


FAMILY: Final = Family(model_types=("stablelm",), read=read, tensors=tensors)
