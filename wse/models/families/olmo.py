"""OLMo 2, OLMo 3, OLMoE and OLMo Hybrid: a norm of all query heads and of all key heads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from wse.models.attention_traits import LinearAttention
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_HEADS, MAX_WIDTH, Heads, read_decoder, read_heads, require_class
from wse.models.configs.expert_config import read_experts, with_mixture
from wse.models.configs.layer_kinds import FULL, layer_count, pattern_kinds, read_window, windowed_layers
from wse.models.configs.linear_config import LINEAR, hybrid_kinds, read_linear_attention
from wse.models.configs.rope_config import disables_rope, read_rope, read_ropes
from wse.models.family import Family, FileSlice
from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.expert_tensors import expert_tensors
from wse.models.tensors.tensor_names import NAMES, LayerTensor, canonical_tensors


def read_olmo2(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo 2 model from its config.json.

    Norms are only after blocks.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo2ForCausalLM")
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    return replace(spec, head_norm="rms_all", pre_norms=False, post_norms=True)


OLMO2: Final = Family(model_types=("olmo2",), read=read_olmo2, tensors=canonical_tensors)


def read_olmo3(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo 3 model from its config.json.

    OLMo 3 is OLMo 2 with sliding windows in most layers, whose rotary frequencies are not scaled.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "Olmo3ForCausalLM")
    heads = read_heads(config)
    rope, window_rope = read_ropes(config, heads.size, base=500_000.0, window_base=500_000.0, window_key=None)
    kinds = pattern_kinds(config, layer_count(config), unstated_interval=4)
    spec = read_decoder(
        config,
        heads,
        rope=rope,
        layers=windowed_layers(config, kinds, read_window(config, unstated_window=4096)),
        bias_key="attention_bias",
    )
    return replace(spec, window_rope=window_rope, head_norm="rms_all", pre_norms=False, post_norms=True)


OLMO3: Final = Family(model_types=("olmo3",), read=read_olmo3, tensors=canonical_tensors)


def read_olmoe(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMoE model from its config.json.

    Every layer has a mixture of experts.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "OlmoeForCausalLM")
    spec = read_decoder(config, read_heads(config), bias_key="attention_bias")
    config.require("clip_qkv", (), "clipped queries, keys and values are not supported; supported: null")
    normalised = config.flag("norm_topk_prob", default=False)
    experts = replace(read_experts(config, "intermediate_size"), normalised=normalised)
    return replace(with_mixture(spec, experts), head_norm="rms_all")


OLMOE: Final = Family(model_types=("olmoe",), read=read_olmoe, tensors=expert_tensors)

LINEAR_NORM_EPS: Final = 1e-5
"""Epsilon of the norm after linear attention, which no config specifies."""

PUBLISHED_NORMS: Final = {
    "input_layernorm.weight": "attention_layer_norm.weight",
    "post_attention_layernorm.weight": "feedforward_layer_norm.weight",
}
"""Names of norms in published checkpoints, keyed by their names in transformers."""


def read_olmo_hybrid(config: ConfigReader) -> ModelSpec:
    """Read the specification of an OLMo Hybrid model from its config.json.

    OLMo Hybrid is OLMo 2 with linear attention in most layers, whose norms precede their blocks.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "OlmoHybridForCausalLM")
    heads, rotary = read_heads(config), not disables_rope(config)
    layers = _layers(config, rotary=rotary)
    rope = read_rope(config, heads.size)
    spec = read_decoder(config, heads, rope=rope, layers=layers, bias_key="attention_bias")
    return replace(
        spec,
        rope=spec.rope if rotary else None,
        head_norm="rms_all",
        pre_norms=False,
        post_norms=True,
        linear=_linear_attention(config, heads, spec.hidden_size),
    )


def _layers(config: ConfigReader, *, rotary: bool) -> tuple[Layer, ...]:
    """Return the layers of a model, each with full attention or linear attention.

    Layers with linear attention normalise the inputs of their blocks, the others the outputs.

    Args:
        config: Reader of the model's config.
        rotary: Whether layers with full attention have rotary position embeddings.

    Raises:
        BadModel: All layers have the same type of attention.
    """
    kinds = hybrid_kinds(config, interval=4)
    if not config.has_value("layer_types") and FULL not in kinds:
        kinds = (*kinds[:-1], FULL)
    if {*kinds} != {FULL, LINEAR}:
        config.refuse("layer_types", [*kinds], f"give at least one layer {FULL} and one layer {LINEAR}")
    linear, full = Layer(linear=True, pre_norms=True, post_norms=False), Layer(rotary=rotary)
    return tuple(linear if kind == LINEAR else full for kind in kinds)


def _linear_attention(config: ConfigReader, heads: Heads, hidden_size: int) -> LinearAttention:
    """Return the sizes of linear attention.

    Sizes that the config leaves out depend on the heads of full attention and on the hidden size.
    """
    key_heads = config.integer("linear_num_key_heads", 1, MAX_HEADS, default=heads.count)
    unstated_key_size = int(0.75 * hidden_size / key_heads)
    key_size = config.integer("linear_key_head_dim", 1, MAX_WIDTH, default=unstated_key_size)
    unstated_sizes = LinearAttention(
        key_heads=key_heads,
        value_heads=heads.count,
        key_size=key_size,
        value_size=2 * key_size,
        taps=4,
        max_strength=2 if config.flag("linear_allow_neg_eigval", default=True) else 1,
        norm_eps=LINEAR_NORM_EPS,
    )
    return read_linear_attention(config, unstated_sizes)


def _published_norm(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a published checkpoint stores a norm, or () if it has the name in transformers."""
    name = tensor.prefix + PUBLISHED_NORMS.get(NAMES.get(tensor.name, ""), "")
    return (FileSlice(file_name=name, file_shape=tensor.shape),) if name in tensor.file_names else ()


def _convolution(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where a checkpoint stores the convolution of queries, keys or values of linear attention."""
    if not tensor.name.startswith("delta.conv_"):
        return ()
    name = tensor.name_in_file(f"linear_attn.{tensor.name[-1]}_conv1d")
    channels, taps = tensor.shape
    return (FileSlice(file_name=name, file_shape=(channels, 1, taps), index=(slice(None), 0)),)


NAMES_OF_LAYER: Final = {
    **NAMES,
    **{f"delta.{name}": f"linear_attn.{name}_proj.weight" for name in "qkvbao"},
    "delta.z": "linear_attn.g_proj.weight",
    "delta.log_rate": "linear_attn.A_log",
    "delta.decay_bias": "linear_attn.dt_bias",
    "delta.norm": "linear_attn.o_norm.weight",
}
"""Names of the tensors of a layer that are stored separately."""

OLMO_HYBRID: Final = Family(
    model_types=("olmo_hybrid",),
    read=read_olmo_hybrid,
    tensors=partial(canonical_tensors, names=NAMES_OF_LAYER, rules=(_published_norm, _convolution)),
    harmless_keys=frozenset(
        {*("linear_a_log_min", "linear_a_log_max"), *("linear_dt_min", "linear_dt_max", "linear_dt_init_floor")}
    ),
)
