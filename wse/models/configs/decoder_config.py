"""The keys that the configs of most families share, read into the parts of a `ModelSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.rope_config import RopeConfig
from wse.models.spec import Layer, ModelSpec
from wse.number_formats import DTYPES

# Bounds that no published model comes near; they keep a damaged file from asking for terabytes.
MOST_LAYERS: Final = 10_000
MOST_HEADS: Final = 65_536
MOST_EXPERTS: Final = 65_536
WIDEST: Final = 2**20
LARGEST_TABLE: Final = 2**24
DTYPE_KEYS: Final = ("dtype", "torch_dtype")
"""Keys of a config that name the element type, in the new and in the old spelling."""


SILU: Final[Mapping[str, str]] = MappingProxyType({"silu": "silu", "swish": "silu"})

HARMLESS_KEYS: Final = frozenset(  # bookkeeping, training and sampling: no part of the logits
    {
        *("transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "tokenizer_class", "auto_map"),
        *("transformers.js_config", "unsloth_version", "unsloth_fixed"),
        *("_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal"),
        *("attn_implementation", "use_cache", "cache_implementation", "pretraining_tp", "torchscript"),
        *("output_attentions", "output_hidden_states", "return_dict", "is_decoder", "max_sequence_length"),
        *("pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id"),
        *("initializer_range", "attention_dropout", "hidden_dropout", "chunk_size_feed_forward"),
        *("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        *("output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),
        *(
            "problem_type",
            "num_labels",
            "_num_labels",
            "id2label",
            "label2id",
            "finetuning_task",
            "task_specific_params",
            "prefix",
        ),
        *("max_length", "min_length", "do_sample", "temperature", "top_k", "top_p", "typical_p"),
        *("num_beams", "num_beam_groups", "num_return_sequences", "early_stopping"),
        *("diversity_penalty", "length_penalty", "repetition_penalty", "remove_invalid_values"),
        *("encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("return_dict_in_generate", "output_scores"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The numbers of query heads and key heads, and the features of each."""

    count: int
    kv_count: int
    size: int


def require_class(config: ConfigReader, *architectures: str) -> None:
    """Refuse a config whose ``architectures`` names an unsupported class."""
    stated = config.value("architectures")
    if stated not in (None, [], *([name] for name in architectures)):
        config.refuse("architectures", stated, f"only {architectures[0]} predicts tokens")


def read_heads(config: ConfigReader, *, size: int | None = None, kv_count: bool = False) -> Heads:
    """Return the attention heads.

    ``size`` is that of a head where ``head_dim`` is absent: without it, hidden size / heads. ``kv_count``: whether the
    number of heads with keys of their own must be stated, null meaning all; else it is all where it is absent.
    """
    hidden_size = config.integer("hidden_size", 1, WIDEST)
    count = config.integer("num_attention_heads", 1, MOST_HEADS)
    key = "num_key_value_heads"
    if kv_count and not config.is_stated(key):
        config.integer(key, 1, MOST_HEADS)
    kv = config.integer(key, 1, MOST_HEADS, default=count)
    if count % kv:
        config.refuse(key, kv, f"give a divisor of num_attention_heads = {count}")
    if size is None and not config.has("head_dim") and hidden_size % count:
        config.refuse("hidden_size", hidden_size, f"give a multiple of num_attention_heads = {count}, or add head_dim")
    size = config.integer("head_dim", 1, WIDEST, default=size or hidden_size // count)
    return Heads(count=count, kv_count=kv, size=size)


def read_decoder(
    config: ConfigReader,
    name: str,
    unstated_dtype: str,
    *,
    family: str,
    heads: Heads,
    rope: RopeConfig,
    layers: tuple[Layer, ...],
    activations: Mapping[str, str] = SILU,
    activation_key: str = "hidden_act",
    tied: bool = False,
) -> ModelSpec:
    """Return a spec with root mean square norms and gated activations.

    ``activations`` maps names in the config to ours; the first of them holds where ``activation_key`` is absent.

    ``tied``: whether the head is the embedding where the config says nothing.
    """
    vocab_size = config.integer("vocab_size", 1, LARGEST_TABLE)
    written = config.choice(activation_key, activations, default=next(iter(activations)))
    return ModelSpec(
        name=name,
        family=family,
        layers=layers,
        hidden_size=config.integer("hidden_size", 1, WIDEST),
        head_count=heads.count,
        kv_head_count=heads.kv_count,
        head_size=heads.size,
        attention_scale=heads.size**-0.5,
        rope=rope.rope,
        ffn_size=config.integer("intermediate_size", 1, LARGEST_TABLE),
        vocab_size=vocab_size,
        context_limit=rope.context_limit,
        norm_eps=config.number("rms_norm_eps", 0.0, 1.0),
        tied_embedding=config.flag("tie_word_embeddings", default=tied),
        dtype=read_dtype(config, unstated_dtype),
        bos_token_id=read_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
        activation=activations[written],
    )


def layer_count(config: ConfigReader) -> int:
    """Return the number of layers."""
    return config.integer("num_hidden_layers", 1, MOST_LAYERS)


def read_dtype(config: ConfigReader, unstated: str) -> str:
    """Return the element type under either of `DTYPE_KEYS`, ``unstated`` where both are absent."""
    stated: dict[str, Any] = {key: config.choice(key, DTYPES) for key in DTYPE_KEYS if config.has(key)}
    if len(set(stated.values())) > 1:
        config.refuse("torch_dtype", stated["torch_dtype"], f"contradicts dtype = {stated['dtype']!r}; keep one")
    return str(next(iter(stated.values()), unstated))


def states_dtype(config: ConfigReader) -> bool:
    """Return whether a config, or the ``text_config`` in it, names its element type."""
    text = config.table("text_config")
    return any(table.has(key) for table in (config, text) if table is not None for key in DTYPE_KEYS)


def read_bos(config: ConfigReader, vocab_size: int) -> int | None:
    """Return the token that starts a text."""
    return config.integer("bos_token_id", 0, vocab_size - 1) if config.has("bos_token_id") else None


def finish(config: ConfigReader, harmless: frozenset[str]) -> None:
    """Refuse what no supported decoder does, and every key that was not read."""
    for key in ("is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder"):
        config.require(key, (False,), "only decoders are supported; supported: false")
    config.require("pruned_heads", ({},), "pruned heads are not supported; supported: {}")
    config.require("use_bfloat16", (False,), "name the element type with torch_dtype")
    config.finish(HARMLESS_KEYS | harmless)
