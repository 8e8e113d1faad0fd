"""Llama: RMSNorm, rotary positions over split halves, grouped-query attention, SwiGLU, no biases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from wse.errors import BadModel
from wse.models.config_reader import ConfigReader
from wse.models.family import Family, WantedTensor, whole
from wse.models.rope import plain_rope
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors import tensor_shapes

# Bounds that no published model comes near; they keep a damaged file from asking for terabytes.
MOST_LAYERS: Final = 10_000
MOST_HEADS: Final = 65_536
WIDEST: Final = 2**20
LARGEST_TABLE: Final = 2**24
LONGEST_CONTEXT: Final = 2**30

DTYPES: Final = ("float32", "float16", "bfloat16")
ORIGINAL_ROPE_BASE: Final = 10_000.0  # configs written before the key existed mean this value

HARMLESS_KEYS: Final = frozenset(  # bookkeeping, training and sampling: no part of the logits
    {
        *("transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "tokenizer_class"),
        *("transformers.js_config", "unsloth_version", "unsloth_fixed", "is_llama_config"),
        *("_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal"),
        *("attn_implementation", "use_cache", "pretraining_tp", "torchscript", "chunk_size_feed_forward"),
        *("output_attentions", "output_hidden_states", "return_dict", "is_decoder", "max_sequence_length"),
        *("pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id"),
        *("initializer_range", "attention_dropout", "hidden_dropout"),
        *("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        *("problem_type", "id2label", "label2id", "finetuning_task", "task_specific_params", "prefix"),
        *("max_length", "min_length", "do_sample", "temperature", "top_k", "top_p", "typical_p"),
        *("num_beams", "num_beam_groups", "num_return_sequences", "early_stopping"),
        *("diversity_penalty", "length_penalty", "repetition_penalty", "remove_invalid_values"),
        *("encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("return_dict_in_generate", "output_scores"),
    }
)


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """The spec of a Llama config; `BadModel` for anything that this family's mathematics does not cover."""
    architectures = config.any("architectures")
    if architectures not in (None, [], ["LlamaForCausalLM"], ["LLaMAForCausalLM"]):
        config.refuse("architectures", architectures, "only LlamaForCausalLM predicts tokens")
    hidden_size = config.integer("hidden_size", 1, WIDEST)
    head_count = config.integer("num_attention_heads", 1, MOST_HEADS)
    kv_head_count = config.integer("num_key_value_heads", 1, MOST_HEADS, default=head_count)
    if head_count % kv_head_count:
        config.refuse("num_key_value_heads", kv_head_count, f"give a divisor of num_attention_heads = {head_count}")
    head_size = _head_size(config, hidden_size, head_count)
    vocab_size = config.integer("vocab_size", 1, LARGEST_TABLE)
    spec = ModelSpec(
        name=name,
        family="llama",
        layers=(Layer(),) * config.integer("num_hidden_layers", 1, MOST_LAYERS),
        hidden_size=hidden_size,
        head_count=head_count,
        kv_head_count=kv_head_count,
        head_size=head_size,
        attention_scale=head_size**-0.5,
        rope=plain_rope(head_size, _rope_base(config)),
        ffn_size=config.integer("intermediate_size", 1, LARGEST_TABLE),
        vocab_size=vocab_size,
        context_limit=config.integer("max_position_embeddings", 1, LONGEST_CONTEXT),
        norm_eps=config.number("rms_norm_eps", 0.0, 1.0),
        tied_embedding=config.flag("tie_word_embeddings", default=False),
        dtype=_dtype(config, unstated_dtype),
        bos_token_id=_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
    )
    _refuse_other_mathematics(config)
    config.finish(HARMLESS_KEYS)
    return spec


def _head_size(config: ConfigReader, hidden_size: int, head_count: int) -> int:
    if not config.has("head_dim") and hidden_size % head_count:
        config.refuse(
            "hidden_size",
            hidden_size,
            f"give a multiple of num_attention_heads = {head_count}, or add head_dim",
        )
    head_size = config.integer("head_dim", 2, WIDEST, default=hidden_size // head_count)
    if head_size % 2 or head_size < 2:
        key = "head_dim" if config.has("head_dim") else "hidden_size / num_attention_heads"
        config.refuse(key, head_size, "rotary positions pair the halves of a head: give an even size")
    return head_size


def _rope_base(config: ConfigReader) -> float:
    """From ``rope_theta`` or ``rope_parameters.rope_theta``; every scaling is refused."""
    bases = {}
    if config.has("rope_theta"):
        bases["rope_theta"] = config.number("rope_theta", 0.0, 1e15)
    for key in ("rope_scaling", "rope_parameters"):
        table = config.any(key)
        if table in (None, {}):
            continue
        if not isinstance(table, dict):
            config.refuse(key, table, "give an object or null")
        kinds = [table[k] for k in ("rope_type", "type") if table.get(k) is not None]
        if any(kind != "default" for kind in kinds):
            config.refuse(
                key,
                table,
                "this scaling of rotary positions is not supported; supported: none (rope_type 'default')",
            )
        inner = ConfigReader(config.path, {f"{key}.{k}": v for k, v in table.items()})
        for k in ("rope_type", "type"):
            inner.any(f"{key}.{k}")
        inner.require(f"{key}.partial_rotary_factor", (1.0, 1), "only whole heads are rotated; supported: 1.0")
        if inner.has(f"{key}.rope_theta"):
            bases[f"{key}.rope_theta"] = inner.number(f"{key}.rope_theta", 0.0, 1e15)
        inner.finish(())
    if len(set(bases.values())) > 1:
        told = ", ".join(f"{key} = {base:g}" for key, base in bases.items())
        msg = f"{config.path}: {told} contradict each other; keep one"
        raise BadModel(msg)
    config.require("partial_rotary_factor", (1.0, 1), "only whole heads are rotated; supported: 1.0")
    return next(iter(bases.values()), ORIGINAL_ROPE_BASE)


def _dtype(config: ConfigReader, unstated: str) -> str:
    stated: dict[str, Any] = {key: config.choice(key, DTYPES) for key in ("dtype", "torch_dtype") if config.has(key)}
    if len(set(stated.values())) > 1:
        config.refuse("torch_dtype", stated["torch_dtype"], f"contradicts dtype = {stated['dtype']!r}; keep one")
    return str(next(iter(stated.values()), unstated))


def _bos(config: ConfigReader, vocab_size: int) -> int | None:
    if not config.has("bos_token_id"):
        return None
    return config.integer("bos_token_id", 0, vocab_size - 1)


def _refuse_other_mathematics(config: ConfigReader) -> None:
    config.require("hidden_act", ("silu", "swish"), "this activation is not supported; supported: silu")
    for key in ("attention_bias", "mlp_bias"):
        config.require(key, (False,), "biases are not supported in this family; supported: false")
    config.require("rope_interleaved", (False,), "rotary pairs must be split halves; supported: false")
    config.require("sliding_window", (), "a sliding window is not supported in this family; supported: null")
    config.require("use_sliding_window", (False,), "a sliding window is not supported; supported: false")
    config.require("is_encoder_decoder", (False,), "only decoders are supported; supported: false")
    config.require("add_cross_attention", (False,), "only decoders are supported; supported: false")
    config.require("tie_encoder_decoder", (False,), "only decoders are supported; supported: false")
    config.require("pruned_heads", ({},), "pruned heads are not supported; supported: {}")
    config.require("use_bfloat16", (False,), "name the element type with torch_dtype")
    layers = config.any("layer_types")
    if layers is not None and (not isinstance(layers, list) or any(layer != "full_attention" for layer in layers)):
        config.refuse("layer_types", layers, "supported: full_attention in every layer")


FILE_NAMES: Final = {
    "embedding": "model.embed_tokens",
    "final_norm": "model.norm",
    "head": "lm_head",
    "attention_norm": "input_layernorm",
    **{name: f"self_attn.{name}_proj" for name in "qkvo"},
    "mlp_norm": "post_attention_layernorm",
    **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
}


def tensors(spec: ModelSpec, held: Collection[str]) -> Iterator[WantedTensor]:
    """Every tensor of a Llama checkpoint."""
    for name, shape in tensor_shapes(spec).items():
        if name.startswith("layers."):
            _, layer, inside = name.split(".", 2)
            yield whole(name, f"model.layers.{layer}.{FILE_NAMES[inside]}.weight", shape)
        else:
            yield whole(name, f"{FILE_NAMES[name]}.weight", shape)


LLAMA: Final = Family(
    name="llama",
    read=read,
    tensors=tensors,
    tied_copy="lm_head.weight",
    harmless_tensors=re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),
)
