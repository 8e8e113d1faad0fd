"""Map tensor names in GGUF files to Hugging Face checkpoint names, for each architecture.

Names: ``constants.py`` and ``tensor_mapping.py`` of gguf-py (github.com/ggml-org/llama.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wse.errors import BadModel
from wse.models.gguf.file import Header
from wse.models.gguf.rules import (
    Rule,
    StoredTensor,
    conv1d,
    down_projections,
    gain,
    gate_up,
    latent_keys,
    rename,
    rename_whole,
    split_experts,
    split_halves,
    stored_entry,
    with_neighbour,
)
from wse.models.tensors.tensor_entry import TensorEntry

BLOCK: Final = re.compile(r"blk\.(0|[1-9]\d{0,5})\.(.+)\.(weight|bias)")
ROPE_FACTORS: Final = "rope_freqs.weight"
"""Tensor with a divisor for each rotary frequency, as llama.cpp stores the scaling of Llama 3."""


TABLES: Final[dict[str, Rule]] = {
    "token_embd": rename("model.embed_tokens"),
    "output_norm": rename("model.norm"),
    "output": rename("lm_head"),
}
PLAIN_LAYER: Final[dict[str, Rule]] = {
    "attn_norm": rename("input_layernorm"),
    **{f"attn_{x}": rename(f"self_attn.{x}_proj") for x in "qkv"},
    "attn_output": rename("self_attn.o_proj"),
    "ffn_norm": rename("post_attention_layernorm"),
    **{f"ffn_{x}": rename(f"mlp.{x}_proj") for x in ("gate", "up", "down")},
}
HEAD_NORMS: Final = {f"attn_{x}_norm": rename(f"self_attn.{x}_norm") for x in "qk"}
EXPERTS: Final = {f"ffn_{x}_exps": split_experts(f"mlp.experts.{{}}.{x}_proj") for x in ("gate", "up", "down")}
SHARED: Final = {
    **{f"ffn_{x}_shexp": rename(f"mlp.shared_experts.{x}_proj") for x in ("gate", "up", "down")},
    "ffn_gate_inp": rename("mlp.gate"),
    "exp_probs_b": rename_whole("mlp.gate.e_score_correction_bias"),
}
LATENT: Final = {
    **{f"attn_{x}": rename(f"self_attn.{x}_proj") for x in ("q_a", "q_b", "kv_b")},
    "attn_kv_a_mqa": rename("self_attn.kv_a_proj_with_mqa"),
    "attn_q_a_norm": rename("self_attn.q_a_layernorm"),
    "attn_kv_a_norm": rename("self_attn.kv_a_layernorm"),
    "attn_k_b": latent_keys,
    "attn_v_b": with_neighbour,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Rules that convert the tensors of a GGUF file to those of a Hugging Face checkpoint.

    There is one set of rules for each GGUF architecture. A rule changes the name of a tensor, and
    may rearrange its values.

    Attributes:
        tables: Rules for tensors outside the layers, keyed by GGUF name without suffix.
        layer: Rules for tensors of a layer, keyed by GGUF name without layer and suffix.
        prefix: Prefix of the new names of a layer's tensors.
    """

    tables: Mapping[str, Rule]
    layer: Mapping[str, Rule]
    prefix: str = "model.layers."


def _names(*changes: Mapping[str, Rule], tables: Mapping[str, Rule] = TABLES) -> Names:
    """Return the renaming rules of an architecture: the rules of Llama with some changes.

    Args:
        changes: Rules to add or replace, applied in order and keyed by the GGUF name of a tensor.
        tables: Rules for tensors outside the layers.
    """
    layer = dict(PLAIN_LAYER)
    for change in changes:
        layer |= change
    return Names(tables=tables, layer=layer)


NAMES: Final[dict[str, Names]] = {
    "llama": _names(
        {
            "attn_q": split_halves("self_attn.q_proj", lambda header: header.size("attention.head_count")),
            "attn_k": split_halves("self_attn.k_proj", lambda header: header.kv_heads),
            "ffn_gate_inp": rename("block_sparse_moe.gate"),
        },
        {
            f"ffn_{x}_exps": split_experts(f"block_sparse_moe.experts.{{}}.{w}")
            for x, w in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
        },
    ),
    "qwen2": _names(),
    "qwen3": _names(HEAD_NORMS),
    "qwen3moe": _names(HEAD_NORMS, EXPERTS, {"ffn_gate_inp": rename("mlp.gate")}),
    "gemma2": _names(
        {
            "attn_norm": gain("input_layernorm"),
            "post_attention_norm": gain("post_attention_layernorm"),
            "ffn_norm": gain("pre_feedforward_layernorm"),
            "post_ffw_norm": gain("post_feedforward_layernorm"),
        },
        tables=TABLES | {"output_norm": gain("model.norm")},
    ),
    "phi3": _names({"attn_qkv": rename("self_attn.qkv_proj"), "ffn_up": rename("mlp.gate_up_proj")}),
    "gpt2": Names(
        tables={
            "token_embd": rename("transformer.wte"),
            "position_embd": rename("transformer.wpe"),
            "output_norm": rename("transformer.ln_f"),
            "output": rename("lm_head"),
        },
        layer={
            "attn_norm": rename("ln_1"),
            "ffn_norm": rename("ln_2"),
            "attn_qkv": conv1d("attn.c_attn"),
            "attn_output": conv1d("attn.c_proj"),
            "ffn_up": conv1d("mlp.c_fc"),
            "ffn_down": conv1d("mlp.c_proj"),
        },
        prefix="transformer.h.",
    ),
    "gpt-oss": _names(
        {
            "post_attention_norm": rename("post_attention_layernorm"),
            "attn_sinks": rename_whole("self_attn.sinks"),
            "ffn_gate_inp": rename("mlp.router"),
            "ffn_gate_exps": gate_up("mlp.experts", interleaved=True),
            "ffn_up_exps": with_neighbour,
            "ffn_down_exps": down_projections("mlp.experts"),
        }
    ),
    "llama4": _names(
        {
            "ffn_gate_inp": rename("feed_forward.router"),
            "ffn_gate_exps": gate_up("feed_forward.experts", interleaved=False),
            "ffn_up_exps": with_neighbour,
            "ffn_down_exps": down_projections("feed_forward.experts"),
        },
        {f"ffn_{x}": rename(f"feed_forward.{x}_proj") for x in ("gate", "up", "down")},
        {f"ffn_{x}_shexp": rename(f"feed_forward.shared_expert.{x}_proj") for x in ("gate", "up", "down")},
    ),
    "glm4moe": _names(HEAD_NORMS, EXPERTS, SHARED, {"post_attention_norm": rename("post_attention_layernorm")}),
    "deepseek2": _names(LATENT, EXPERTS, SHARED),
}
"""Rules for the tensors of a file, keyed by general.architecture."""


def family_entries(header: Header, layer_count: int) -> dict[str, TensorEntry]:
    """Return the tensors of a GGUF file, renamed and rearranged as in Hugging Face checkpoints.

    Tensors without a rule keep their names. The tensor of rotary factors (`ROPE_FACTORS`) and the
    layers for multi-token prediction, starting at index ``layer_count``, are omitted.

    Args:
        header: Metadata of the file.
        layer_count: Number of layers of the model.

    Returns:
        The tensors, keyed by their new names.

    Raises:
        BadModel: Two tensors get the same name.
    """
    names, gguf = NAMES[header.architecture], header.gguf
    gguf_entries = {name: stored_entry(gguf, tensor) for name, tensor in gguf.tensors.items()}
    result: dict[str, TensorEntry] = {}
    for name, entry in gguf_entries.items():
        match = BLOCK.fullmatch(name)
        if name == ROPE_FACTORS or (match and layer_count <= int(match[1])):
            continue
        for tensor in _under_new_names(names, header, gguf_entries, entry, match):
            if tensor.name in result:
                raise BadModel(
                    f"{gguf.path}: tensor {tensor.name!r} is there twice, also as {name!r}; fetch the file again"
                )
            result[tensor.name] = tensor
    return result


def _under_new_names(
    names: Names,
    header: Header,
    gguf_entries: Mapping[str, TensorEntry],
    entry: TensorEntry,
    match: re.Match[str] | None,
) -> Iterator[TensorEntry]:
    """Apply the renaming rule for one tensor of a GGUF file, and yield the resulting tensors.

    A rule may split a tensor into several, or yield nothing if another tensor's rule uses this one.
    A tensor without a rule is yielded unchanged.

    Args:
        names: Rules of the architecture.
        header: Metadata of the file.
        gguf_entries: All tensors of the file, keyed by GGUF name.
        entry: Tensor of the file to convert.
        match: Match of the tensor's name against the pattern for layer tensors; None outside the
            layers.
    """
    if match is None:
        prefix, gguf_prefix = "", ""
        gguf_name, _, suffix = entry.name.rpartition(".")
        rule = names.tables.get(gguf_name)
    else:
        layer, gguf_name, suffix = match.groups()
        prefix, gguf_prefix = f"{names.prefix}{layer}.", f"blk.{layer}."
        rule = names.layer.get(gguf_name)
    if rule is None:
        yield entry
        return
    yield from rule(
        StoredTensor(
            entry=entry,
            prefix=prefix,
            suffix=suffix,
            neighbour=lambda name: gguf_entries.get(f"{gguf_prefix}{name}.{suffix}"),
            header=header,
        )
    )
