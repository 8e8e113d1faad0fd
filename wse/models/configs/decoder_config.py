"""Read the config keys shared by most model families into the parts of a ModelSpec.

The config of a multimodal model has those of its text model in the table ``text_config``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.layer_kinds import equal_layers
from wse.models.configs.rope_config import RopeConfig, read_rope
from wse.models.spec import Layer, ModelSpec
from wse.number_formats import DTYPES

# Upper bounds far above any published model. They prevent a damaged file from requesting terabytes.
MAX_HEADS: Final = 65_536
MAX_EXPERTS: Final = 65_536
MAX_WIDTH: Final = 2**20
MAX_MATRIX_ROWS: Final = 2**24
DTYPE_KEYS: Final = ("dtype", "torch_dtype")
"""Config keys for the element type, in the new and the old spelling."""


SILU: Final[Mapping[str, str]] = {"silu": "silu", "swish": "silu"}

HARMLESS_KEYS: Final = frozenset(  # bookkeeping, training and sampling: without effect on the logits
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
        *("problem_type", "num_labels", "_num_labels", "id2label", "label2id"),
        *("finetuning_task", "task_specific_params", "prefix"),
        *("max_length", "min_length", "do_sample", "temperature", "top_k", "top_p", "typical_p"),
        *("num_beams", "num_beam_groups", "num_return_sequences", "early_stopping"),
        *("diversity_penalty", "length_penalty", "repetition_penalty", "remove_invalid_values"),
        *("encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("return_dict_in_generate", "output_scores"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Attention heads of a model.

    Attributes:
        count: Number of query heads.
        kv_count: Number of key-value heads.
        size: Features per head.
    """

    count: int
    kv_count: int
    size: int


def require_class(config: ConfigReader, *architectures: str) -> None:
    """Raise an error if ``architectures`` in the config names an unsupported class.

    Args:
        config: Reader of the model's config.
        architectures: Supported classes of Hugging Face transformers. The error message suggests
            the first.
    """
    stated_classes = config.value("architectures")
    if stated_classes not in (None, [], *([name] for name in architectures)):
        config.refuse("architectures", stated_classes, f"only {architectures[0]} predicts tokens")


def read_heads(config: ConfigReader, *, default_size: int | None = None, requires_kv_count: bool = False) -> Heads:
    """Return the number and size of the attention heads that a config describes.

    If ``num_key_value_heads`` is null, or absent and not required, every query head has its own
    keys and values.

    Args:
        config: Reader of the model's config.
        default_size: Features per head if ``head_dim`` is absent. None means hidden size / heads.
        requires_kv_count: Whether ``num_key_value_heads`` must be present.

    Raises:
        BadModel: A value is missing or impossible, or the number of heads is not a multiple of the
            number of KV heads.
    """
    hidden_size = config.integer("hidden_size", 1, MAX_WIDTH)
    head_count = config.integer("num_attention_heads", 1, MAX_HEADS)
    key = "num_key_value_heads"
    if requires_kv_count and not config.is_stated(key):
        config.integer(key, 1, MAX_HEADS)
    kv_count = config.integer(key, 1, MAX_HEADS, default=head_count)
    if head_count % kv_count:
        config.refuse(key, kv_count, f"give a divisor of num_attention_heads = {head_count}")
    if default_size is None and not config.has_value("head_dim") and hidden_size % head_count:
        config.refuse(
            "hidden_size", hidden_size, f"give a multiple of num_attention_heads = {head_count}, or add head_dim"
        )
    size = config.integer("head_dim", 1, MAX_WIDTH, default=default_size or hidden_size // head_count)
    return Heads(count=head_count, kv_count=kv_count, size=size)


def read_even_heads(
    config: ConfigReader, size_key: str = "hidden_size", count_key: str = "num_attention_heads"
) -> Heads:
    """Return the heads of a model in which each query head has its own keys and values.

    The hidden vector is divided evenly over the heads.

    Args:
        config: Reader of the model's config.
        size_key, count_key: Config keys for the hidden size and the number of heads.

    Raises:
        BadModel: A value is missing or impossible, or the hidden size is not a multiple of the
            number of heads.
    """
    hidden_size, count = config.integer(size_key, 1, MAX_WIDTH), config.integer(count_key, 1, MAX_HEADS)
    if hidden_size % count:
        config.refuse(size_key, hidden_size, f"give a multiple of {count_key} = {count}")
    return Heads(count=count, kv_count=count, size=hidden_size // count)


def read_decoder(
    config: ConfigReader,
    heads: Heads,
    *,
    rope: RopeConfig | None = None,
    layers: tuple[Layer, ...] | None = None,
    activations: Mapping[str, str] = SILU,
    bias_key: str = "",
    eps_key: str = "rms_norm_eps",
    tied: bool = False,
) -> ModelSpec:
    """Return the specification of a decoder with Llama-style norms and feed-forward blocks.

    The norms divide by the root mean square, and the activation of each block is gated.

    Args:
        config: Reader of the model's config.
        heads: Attention heads.
        rope: Rotary position embeddings; None to read them from the config, as for Llama.
        layers: Attention type of each layer; None if all layers have full attention.
        activations: Activation names used in configs, mapped to names in wse. The first is used if
            ``hidden_act`` is absent.
        bias_key: Config key for whether all projections of attention have biases, false by default.
            "" if they have none, or if the caller reads another key.
        eps_key: Config key for the epsilon of the norms.
        tied: Whether the embedding table also serves as the output head if the config does not
            specify it.
    """
    rope = rope or read_rope(config, heads.size)
    layers = layers or equal_layers(config)
    biased = bool(bias_key) and config.flag(bias_key, default=False)
    vocab_size = config.integer("vocab_size", 1, MAX_MATRIX_ROWS)
    activation_name = config.choice("hidden_act", activations, default=next(iter(activations)))
    return ModelSpec(
        layers=layers,
        hidden_size=config.integer("hidden_size", 1, MAX_WIDTH),
        head_count=heads.count,
        kv_head_count=heads.kv_count,
        head_size=heads.size,
        attention_scale=heads.size**-0.5,
        rope=rope.rope,
        ffn_size=config.integer("intermediate_size", 1, MAX_MATRIX_ROWS),
        vocab_size=vocab_size,
        context_limit=rope.context_limit,
        norm_eps=config.number(eps_key, 0.0, 1.0),
        tied_embedding=config.flag("tie_word_embeddings", default=tied),
        dtype=read_dtype(config),
        bos_token_id=read_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
        qkv_bias=biased,
        output_bias=biased,
        activation=activations[activation_name],
    )


def read_dtype(config: ConfigReader) -> str:
    """Return a model's element type from its config, or "" if the config does not specify one.

    Raises:
        BadModel: The two keys for the element type (`DTYPE_KEYS`) contradict each other.
    """
    stated_dtypes: dict[str, Any] = {key: config.choice(key, DTYPES) for key in DTYPE_KEYS if config.has_value(key)}
    if len(set(stated_dtypes.values())) > 1:
        config.refuse(
            "torch_dtype", stated_dtypes["torch_dtype"], f"contradicts dtype = {stated_dtypes['dtype']!r}; keep one"
        )
    return str(next(iter(stated_dtypes.values()), ""))


def states_dtype(config: ConfigReader) -> bool:
    """Return whether a config or its ``text_config`` specifies an element type."""
    text = config.table("text_config")
    return any(table.has_value(key) for table in (config, text) if table is not None for key in DTYPE_KEYS)


def read_bos(config: ConfigReader, vocab_size: int) -> int | None:
    """Return the id of the token that starts a sequence, or None if the config has none."""
    return config.integer("bos_token_id", 0, vocab_size - 1) if config.has_value("bos_token_id") else None


def finish(config: ConfigReader, harmless: frozenset[str]) -> None:
    """Raise BadModel if a config contains a setting that wse does not support.

    These are settings of other kinds of models, such as encoder-decoders, and keys that were never
    read.

    Args:
        config: The config, after all supported keys have been read.
        harmless: Additional keys that may remain unread, because they do not affect the results.
    """
    for key in ("is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder"):
        config.require(key, (False,), "only decoders are supported; supported: false")
    config.require("pruned_heads", ({},), "pruned heads are not supported; supported: {}")
    config.require("use_bfloat16", (False,), "name the element type with torch_dtype")
    config.finish(HARMLESS_KEYS | harmless)


def read_text_model(
    config: ConfigReader, read_text: Callable[[ConfigReader], ModelSpec], harmless_keys: frozenset[str]
) -> ModelSpec:
    """Read the config of a text model, or of a multimodal model that contains one.

    In the config of a multimodal model, the settings of the text model are in the table
    ``text_config``.

    Args:
        config: Reader of the keys in config.json.
        read_text: Function that reads the config of a text model.
        harmless_keys: Keys in ``text_config`` that may remain unread, because they do not affect
            the results.

    Raises:
        BadModel: A setting is missing, invalid or not supported, or a setting in ``text_config``
            contradicts the same setting outside of it.
    """
    text = config.table("text_config")
    if text is None:
        return read_text(config)
    dtype = read_dtype(config)
    spec = read_text(text)
    if dtype:
        for key in DTYPE_KEYS:
            text.require(key, (dtype,), f"contradicts {dtype!r} outside of text_config; keep one")
    config.require("tie_word_embeddings", (spec.tied_embedding,), "contradicts text_config; keep one")
    finish(text, harmless_keys)
    outer_start_id, outer_end_ids = read_bos(config, spec.vocab_size), config.ids("eos_token_id", spec.vocab_size)
    return replace(
        spec,
        dtype=spec.dtype or dtype,
        bos_token_id=outer_start_id if spec.bos_token_id is None else spec.bos_token_id,
        eos_token_ids=spec.eos_token_ids or outer_end_ids,
    )
