"""GPT-2: LayerNorm, learned positions, GELU, biases everywhere, one matrix [in, out] for queries, keys and values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import (
    LARGEST_TABLE,
    MOST_HEADS,
    MOST_LAYERS,
    WIDEST,
    read_bos,
    read_dtype,
    require_class,
)
from wse.models.configs.rope_config import LONGEST_CONTEXT
from wse.models.family import Family, Piece, WantedTensor, harmless_names
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import Shape, wanted_tensors

ACTIVATIONS: Final = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}


def read(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the spec of a GPT-2 config, whose keys have names of their own."""
    require_class(config, "GPT2LMHeadModel")
    hidden_size = config.integer("n_embd", 1, WIDEST)
    heads = config.integer("n_head", 1, MOST_HEADS)
    if hidden_size % heads:
        config.refuse("n_embd", hidden_size, f"give a multiple of n_head = {heads}")
    head_size = hidden_size // heads
    vocab_size = config.integer("vocab_size", 1, LARGEST_TABLE)
    positions = config.integer("n_positions", 1, LONGEST_CONTEXT)
    config.require("n_ctx", (positions,), f"contradicts n_positions = {positions}; remove it")
    config.require(
        "scale_attn_by_inverse_layer_idx", (False,), "scores scaled by layer are not supported; supported: false"
    )
    return ModelSpec(
        name=name,
        family="gpt2",
        layers=(Layer(rotary=False),) * config.integer("n_layer", 1, MOST_LAYERS),
        hidden_size=hidden_size,
        head_count=heads,
        kv_head_count=heads,
        head_size=head_size,
        attention_scale=head_size**-0.5 if config.flag("scale_attn_weights", default=True) else 1.0,
        rope=None,
        ffn_size=config.integer("n_inner", 1, LARGEST_TABLE, default=4 * hidden_size),
        vocab_size=vocab_size,
        context_limit=positions,
        norm_eps=config.number("layer_norm_epsilon", 0.0, 1.0),
        tied_embedding=config.flag("tie_word_embeddings", default=True),
        dtype=read_dtype(config, unstated_dtype),
        bos_token_id=read_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
        qkv_bias=True,
        output_bias=True,
        activation=ACTIVATIONS[config.choice("activation_function", ACTIVATIONS, default="gelu_new")],
        gated=False,
        ffn_bias=True,
        norm="layer",
        learned_positions=positions,
    )


TABLES: Final = {"embedding": "wte.weight", "positions": "wpe.weight", "final_norm": "ln_f.weight"}
NORMS: Final = {"attention_norm": "ln_1.weight", "mlp_norm": "ln_2.weight"}
FUSED: Final = {"q": "attn.c_attn", "k": "attn.c_attn", "v": "attn.c_attn"}
TRANSPOSED: Final = FUSED | {"o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[WantedTensor]:
    """Return every tensor of a GPT-2 checkpoint, with or without ``transformer.`` before the names."""
    prefix = "transformer." if "transformer.wte.weight" in file_names else ""
    hidden = spec.hidden_size

    def cut(name: str, layer: int, shape: Shape) -> tuple[Piece, ...]:
        projection = name.removesuffix("_bias")
        if projection not in TRANSPOSED:
            return ()
        at = f"{prefix}h.{layer}.{TRANSPOSED[projection]}"
        fused = projection in FUSED
        outputs = 3 * hidden if fused else shape[0]
        first = hidden * "qkv".index(projection) if fused else 0
        output_slice = slice(first, first + shape[0])
        if name != projection:
            return (Piece(file_name=f"{at}.bias", file_shape=(outputs,), index=(output_slice,)),)
        index = (slice(None), output_slice)
        return (Piece(file_name=f"{at}.weight", file_shape=(shape[1], outputs), index=index, transposed=True),)

    tables = {name: prefix + file_name for name, file_name in TABLES.items()}
    return wanted_tensors(spec, tables | NORMS | {"head": "lm_head.weight"}, f"{prefix}h.", cut)


FAMILY: Final = Family(
    model_types=("gpt2",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset(
        {
            *("summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
            *("summary_type", "summary_use_proj", "reorder_and_upcast_attn"),
        }
    ),
    harmless_tensors=harmless_names(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias"),
)
