"""OPT: layer norms, learned positions, ReLU and biases."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_MATRIX_ROWS, read_bos, read_dtype, read_even_heads, require_class
from wse.models.configs.layer_kinds import layer_count
from wse.models.configs.rope_config import LONGEST_CONTEXT
from wse.models.family import CanonicalTensor, Family, FileSlice
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.tensor_names import NAMES, LayerTensor, canonical_tensors

NORM_EPS: Final = 1e-5
ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu"}
FIRST_POSITION: Final = 2
"""Row of the position table that belongs to the first token."""


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OPT model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "OPTForCausalLM")
    heads = read_even_heads(config)
    hidden_size = heads.count * heads.size
    vocab_size = config.integer("vocab_size", 1, MAX_MATRIX_ROWS)
    positions = config.integer("max_position_embeddings", 1, LONGEST_CONTEXT)
    config.require("word_embed_proj_dim", (hidden_size,), f"supported: hidden_size = {hidden_size}")
    config.require("do_layer_norm_before", (True,), "norms after blocks are not supported; supported: true")
    config.require("_remove_final_layer_norm", (False,), "the last norm is not optional; supported: false")
    config.require("layer_norm_elementwise_affine", (True,), "norms have gains; supported: true")
    biased = config.flag("enable_bias", default=True)
    return ModelSpec(
        layers=(Layer(rotary=False),) * layer_count(config),
        hidden_size=hidden_size,
        head_count=heads.count,
        kv_head_count=heads.kv_count,
        head_size=heads.size,
        attention_scale=heads.size**-0.5,
        rope=None,
        ffn_size=config.integer("ffn_dim", 1, MAX_MATRIX_ROWS),
        vocab_size=vocab_size,
        context_limit=positions,
        norm_eps=NORM_EPS,
        tied_embedding=config.flag("tie_word_embeddings", default=True),
        dtype=read_dtype(config),
        bos_token_id=read_bos(config, vocab_size),
        eos_token_ids=config.ids("eos_token_id", vocab_size),
        qkv_bias=biased,
        output_bias=biased,
        activation=ACTIVATIONS[config.choice("activation_function", ACTIVATIONS, default="relu")],
        gated=False,
        ffn_bias=biased,
        norm="layer",
        learned_positions=positions,
    )


LAYER_NAMES: Final = {
    "attention_norm": "self_attn_layer_norm.weight",
    "mlp_norm": "final_layer_norm.weight",
    "o": "self_attn.out_proj.weight",
    "up": "fc1.weight",
    "down": "fc2.weight",
}


def _positions(tensor: LayerTensor, start: str) -> tuple[FileSlice, ...]:
    """Return the rows of the position table in the checkpoint, except for the first rows, which are not used."""
    if tensor.name != "positions":
        return ()
    rows = (tensor.shape[0] + FIRST_POSITION, tensor.shape[1])
    index = (slice(FIRST_POSITION, rows[0]),)
    return (FileSlice(file_name=f"{start}embed_positions.weight", file_shape=rows, index=index),)


def tensors(spec: ModelSpec, file_names: Collection[str]) -> Iterator[CanonicalTensor]:
    """Yield each tensor of an OPT model with its location in a checkpoint.

    Names in the file have the prefix ``model.decoder.`` or ``decoder.``.

    Args:
        spec: Specification of the model.
        file_names: Names of all tensors in the checkpoint, used to detect the prefix.
    """
    start = "decoder." if "decoder.embed_tokens.weight" in file_names else "model.decoder."
    tables = {"embedding": f"{start}embed_tokens.weight", "final_norm": f"{start}final_layer_norm.weight"}
    rules = (partial(_positions, start=start),)
    return canonical_tensors(spec, file_names, {**NAMES, **LAYER_NAMES, **tables}, rules, f"{start}layers.")


FAMILY: Final = Family(
    model_types=("opt",),
    read=read,
    tensors=tensors,
    harmless_keys=frozenset({"dropout", "activation_dropout", "layerdrop", "init_std"}),
)
