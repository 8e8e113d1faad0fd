"""DeepSeek-V3, DeepSeek-R1 and Kimi K2: latent attention, and experts selected by groups.

Source: arXiv 2412.19437, section 2.1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from wse.models.attention_traits import Latent
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import MAX_HEADS, MAX_WIDTH, Heads, read_decoder, require_class
from wse.models.configs.expert_config import layers_with_experts, read_sigmoid_experts, with_mixture
from wse.models.configs.rope_config import read_rope
from wse.models.family import Family, FileSlice, harmless_names_beyond
from wse.models.spec import ModelSpec
from wse.models.tensors.expert_tensors import expert_slices
from wse.models.tensors.tensor_names import NAMES, LayerTensor, canonical_tensors, rows_of_heads, split_halves


def read(config: ConfigReader) -> ModelSpec:
    """Read the specification of a DeepSeek-V3 model from its config.json.

    Raises:
        BadModel: A setting is missing, invalid or not supported.
    """
    require_class(config, "DeepseekV3ForCausalLM")
    heads = config.integer("num_attention_heads", 1, MAX_HEADS)
    latent = _latent(config)
    _require_derived(config, heads, latent)
    rope = read_rope(config, latent.rope_size)
    spec = read_decoder(
        config,
        Heads(count=heads, kv_count=1, size=latent.kv_rank + latent.rope_size),
        rope=rope,
        bias_key="attention_bias",
    )
    experts = read_sigmoid_experts(config, groups=8, chosen_groups=4, scale=2.5)
    return replace(
        with_mixture(spec, experts, layers_with_experts(config, unstated_dense=3)),
        attention_scale=(latent.nope_size + latent.rope_size) ** -0.5 * rope.score_factor,
        latent=latent,
    )


def _latent(config: ConfigReader) -> Latent:
    """Return the sizes of the latent vectors and heads that a config specifies.

    If ``q_lora_rank`` is null, queries are computed from the hidden vector rather than a latent
    vector.
    """
    has_no_query_latent = config.is_stated("q_lora_rank") and not config.has_value("q_lora_rank")
    rope_size = config.integer("qk_rope_head_dim", 2, MAX_WIDTH)
    if rope_size % 2:
        config.refuse("qk_rope_head_dim", rope_size, "rotary positions pair features of a head: give an even size")
    return Latent(
        q_rank=0 if has_no_query_latent else config.integer("q_lora_rank", 1, MAX_WIDTH),
        kv_rank=config.integer("kv_lora_rank", 1, MAX_WIDTH),
        nope_size=config.integer("qk_nope_head_dim", 1, MAX_WIDTH),
        rope_size=rope_size,
        value_size=config.integer("v_head_dim", 1, MAX_WIDTH),
    )


def _require_derived(config: ConfigReader, heads: int, latent: Latent) -> None:
    """Check config keys for which only one value is possible.

    The values of ``num_key_value_heads`` and the head sizes follow from other keys, and
    ``rope_interleave`` must be true.

    Raises:
        BadModel: A key has another value.
    """
    config.require("num_key_value_heads", (heads,), f"all {heads} heads share the latent vector; give {heads}")
    size = latent.nope_size + latent.rope_size
    config.require("qk_head_dim", (size,), f"is qk_nope_head_dim + qk_rope_head_dim = {size}")
    config.require("head_dim", (latent.rope_size,), f"is qk_rope_head_dim = {latent.rope_size}")
    config.require("rope_interleave", (True,), "rotated pairs must be neighbours; supported: true")


def _latent_slices(tensor: LayerTensor) -> tuple[FileSlice, ...]:
    """Return where the checkpoint stores a projection of latent attention that shares a matrix.

    In the file, the two features that rotary embeddings rotate together are adjacent rows. wse
    reorders them: the first features of all pairs, then the second features. The result is () for
    all other tensors.
    """
    latent = tensor.spec.latent
    if latent is None or tensor.matrix not in ("q_nope", "q_rope", "kv_a", "k_rope", "k_b", "v_b"):
        return ()
    heads, nope, value, kv_rank = tensor.spec.head_count, latent.nope_size, latent.value_size, latent.kv_rank
    query, pairs = "q_b_proj" if latent.q_rank else "q_proj", split_halves(latent.rope_size)
    # The file's matrix, its number of heads, the rows of each head, and the rows to take of them
    matrix, count, size, rows = {
        "q_nope": (query, heads, nope + latent.rope_size, np.arange(nope)),
        "q_rope": (query, heads, nope + latent.rope_size, nope + pairs),
        "kv_a": ("kv_a_proj_with_mqa", 1, kv_rank + latent.rope_size, np.arange(kv_rank)),
        "k_rope": ("kv_a_proj_with_mqa", 1, kv_rank + latent.rope_size, kv_rank + pairs),
        "k_b": ("kv_b_proj", heads, nope + value, np.arange(nope)),
        "v_b": ("kv_b_proj", heads, nope + value, nope + np.arange(value)),
    }[tensor.matrix]
    file_name, file_shape = tensor.name_in_file(f"self_attn.{matrix}"), (count * size, *tensor.shape[1:])
    return (FileSlice(file_name=file_name, file_shape=file_shape, rows=rows_of_heads(count, size, rows)),)


LATENT_NAMES: Final = {
    "q_a": "self_attn.q_a_proj.weight",
    "q_a_norm": "self_attn.q_a_layernorm.weight",
    "kv_a_norm": "self_attn.kv_a_layernorm.weight",
}
FAMILY: Final = Family(
    model_types=("deepseek_v3", "kimi_k2"),
    read=read,
    tensors=partial(canonical_tensors, names={**NAMES, **LATENT_NAMES}, rules=(_latent_slices, expert_slices)),
    harmless_keys=frozenset({"num_nextn_predict_layers", "num_mtp_layers", "aux_loss_alpha", "seq_aux", "ep_size"}),
    harmless_tensors=harmless_names_beyond,
)
