"""Falcon: layer norms, parallel blocks, few KV heads, GELU without gate.

Queries, keys and values of a KV head are adjacent rows of one matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import (
    MAX_HEADS,
    MAX_MATRIX_ROWS,
    read_bos,
    read_dtype,
    read_even_heads,
    require_class,
)
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import read_rope
from wse.models.family import CanonicalTensor, Family
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_names import canonical_tensors, qkv_of_groups

ACTIVATIONS: Final = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a Falcon model from its config.json.

    With ``new_decoder_architecture``, blocks are parallel and ``num_kv_heads`` is used. Otherwise,
    ``multi_query`` means one KV head.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "FalconForCausalLM", "RWForCausalLM")
    config = config.with_defaults({"max_position_embeddings": 2048})
    heads = read_even_heads(config)
    hidden_size = heads.count * heads.size
    is_new = config.flag("new_decoder_architecture", default=False)
    vocab_size = config.integer("vocab_size", 1, MAX_MATRIX_ROWS)
    config.require("alibi", (False,), "positions in scores are not supported; supported: false")
    ffn_size = config.integer("ffn_hidden_size", 1, MAX_MATRIX_ROWS, default=4 * hidden_size)
    config.require("ff_factor", (ffn_size // hidden_size,), f"contradicts ffn_hidden_size = {ffn_size}; remove it")
    rope, biased = read_rope(config, heads.size), config.flag("bias", default=False)
    return ModelSpec(
        layers=equal_layers(config),
        hidden_size=hidden_size,
        head_count=heads.count,
        kv_head_count=_kv_heads(config, heads.count, is_new=is_new),
        head_size=heads.size,
        attention_scale=heads.size**-0.5,
        rope=rope.rope,
        ffn_size=ffn_size,
        vocab_size=vocab_size,
        context_limit=rope.context_limit,
        norm_eps=config.number("layer_norm_epsilon", 0.0, 1.0, default=1e-5),
        tied_embedding=config.flag("tie_word_embeddings", default=True),
        dtype=read_dtype(config),
        bos_token_id=read_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
        qkv_bias=biased,
        output_bias=biased,
        activation=ACTIVATIONS[config.choice("activation", ACTIVATIONS, default="gelu")],
        gated=False,
        ffn_bias=biased,
        norm="layer",
        parallel_blocks=config.flag("parallel_attn", default=True) or is_new,
    )


def _kv_heads(config: ConfigReader, heads: int, *, is_new: bool) -> int:
    """Return the number of KV heads of a Falcon model.

    Also check that the config specifies a supported number of norms per layer.

    Args:
        config: Reader of the model's config.
        heads: Number of query heads.
        is_new: Whether the model has the new decoder architecture.
    """
    norms = (1, 2) if is_new else (1,)
    config.require("num_ln_in_parallel_attn", norms, f"supported: {' or '.join(map(str, norms))}")
    if not is_new:
        config.value("num_kv_heads")
        return 1 if config.flag("multi_query", default=True) else heads
    config.value("multi_query")
    count = config.integer("num_kv_heads", 1, MAX_HEADS, default=heads)
    if heads % count:
        config.refuse("num_kv_heads", count, f"give a divisor of num_attention_heads = {heads}")
    return count


START: Final = "transformer."
FILE_NAMES: Final = {
    "embedding": f"{START}word_embeddings.weight",
    "final_norm": f"{START}ln_f.weight",
    "head": "lm_head.weight",
    "o": "self_attention.dense.weight",
    "up": "mlp.dense_h_to_4h.weight",
    "down": "mlp.dense_4h_to_h.weight",
}


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of a Falcon model with its location in a checkpoint.

    A layer has one norm for attention and one for the feed-forward block, or a single norm for
    both. wse has a norm for each block in either case.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect the number of norms.
    """
    has_two_norms = f"{START}h.0.ln_mlp.weight" in file_names
    second = "input_layernorm" if spec.parallel_blocks else "post_attention_layernorm"
    norms = ("ln_attn", "ln_mlp") if has_two_norms else ("input_layernorm", second)
    names = {**FILE_NAMES, "attention_norm": f"{norms[0]}.weight", "mlp_norm": f"{norms[1]}.weight"}
    rule = partial(qkv_of_groups, block="self_attention")
    return canonical_tensors(spec, file_names, names, (rule,), f"{START}h.")


FAMILY: Final = Family(
    model_types=("falcon",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"apply_residual_connection_post_layernorm"}),
)
