"""GGUF tensor names to those of Hugging Face checkpoints, with llama.cpp's own conventions undone.

Names: ``constants.py`` and ``tensor_mapping.py`` of gguf-py; conventions: ``convert_hf_to_gguf.py``, both of
github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from wse.errors import BadModel
from wse.models.gguf.entries import (
    expanded_keys_and_values,
    joined,
    less_one,
    one_of,
    split_halves,
    stored_entry,
    swapped,
)
from wse.models.gguf.header import Header
from wse.models.tensor_entry import TensorEntry

BLOCK: Final = re.compile(r"blk\.(0|[1-9]\d{0,5})\.(.+)\.(weight|bias)")
ROPE_FACTORS: Final = "rope_freqs.weight"
"""What rotary frequencies are divided by, one factor a pair: how llama.cpp stores the scaling of Llama 3."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """One tensor of a layer: its entry, its layer's prefix and its suffix in the new name, and its neighbours."""

    entry: TensorEntry
    prefix: str
    suffix: str  # weight or bias
    beside: Callable[[str], TensorEntry | None]  # another tensor of the layer, by GGUF name without the suffix
    header: Header

    def named(self, inside: str) -> str:
        """The new name."""
        return f"{self.prefix}{inside}.{self.suffix}"


Rule = Callable[[Found], Iterator[TensorEntry]]


def renamed(inside: str) -> Rule:
    """Another name, nothing else."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        yield replace(found.entry, name=found.named(inside))

    return rule


def _exactly(inside: str) -> Rule:
    """Another name, whole, whatever the suffix."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        yield replace(found.entry, name=found.prefix + inside)

    return rule


def _queries(found: Found) -> Iterator[TensorEntry]:
    heads = found.header.size("attention.head_count")
    yield split_halves(found.entry, found.named("self_attn.q_proj"), heads)


def _keys(found: Found) -> Iterator[TensorEntry]:
    yield split_halves(found.entry, found.named("self_attn.k_proj"), found.header.kv_heads)


def _gain(inside: str) -> Rule:
    def rule(found: Found) -> Iterator[TensorEntry]:
        yield less_one(found.entry, found.named(inside))

    return rule


def _conv1d(inside: str) -> Rule:
    """GPT-2's own checkpoints have matrices [in, out]."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        yield swapped(found.entry, found.named(inside))

    return rule


def _each_expert(inside: str) -> Rule:
    """A stack of experts as single matrices; ``{}`` is the expert."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        count = found.entry.shape[0]
        if len(found.entry.shape) != 3 or count != found.header.count("expert_count"):
            yield found.entry  # it is refused under its own name
            return
        for index in range(count):
            yield one_of(found.entry, found.named(inside.format(index)), index)

    return rule


def _gate_up(experts: str, *, in_turn: bool) -> Rule:
    """gpt-oss has the columns of gate and up in turn, Llama 4 those of up behind those of gate; matrices [in, out]."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        up = found.beside("ffn_up_exps")
        if up is None or up.shape != found.entry.shape or len(up.shape) < 2:
            yield found.entry
            return
        name = f"{found.prefix}{experts}.gate_up_proj"
        if found.suffix == "bias":
            yield joined(found.entry, up, f"{name}_bias", in_turn=in_turn)
        else:
            yield swapped(joined(found.entry, up, name, in_turn=in_turn), name)

    return rule


def _down(experts: str) -> Rule:
    def rule(found: Found) -> Iterator[TensorEntry]:
        name = f"{found.prefix}{experts}.down_proj"
        if found.suffix == "bias":
            yield replace(found.entry, name=f"{name}_bias")
        else:
            yield swapped(found.entry, name)

    return rule


def _latent_keys(found: Found) -> Iterator[TensorEntry]:
    values = found.beside("attn_v_b")
    fits = values is not None and len(values.shape) == len(found.entry.shape) == 3
    if values is None or not fits or (values.shape[0], values.shape[2]) != found.entry.shape[:2]:
        yield found.entry
        return
    yield expanded_keys_and_values(found.entry, values, found.named("self_attn.kv_b_proj"))


def _nothing(found: Found) -> Iterator[TensorEntry]:
    """Taken with its neighbour."""
    yield from ()


TABLES: Final[dict[str, Rule]] = {
    "token_embd": renamed("model.embed_tokens"),
    "output_norm": renamed("model.norm"),
    "output": renamed("lm_head"),
}
PLAIN_LAYER: Final[dict[str, Rule]] = {
    "attn_norm": renamed("input_layernorm"),
    **{f"attn_{x}": renamed(f"self_attn.{x}_proj") for x in "qkv"},
    "attn_output": renamed("self_attn.o_proj"),
    "ffn_norm": renamed("post_attention_layernorm"),
    **{f"ffn_{x}": renamed(f"mlp.{x}_proj") for x in ("gate", "up", "down")},
}
HEAD_NORMS: Final = {f"attn_{x}_norm": renamed(f"self_attn.{x}_norm") for x in "qk"}
EXPERTS: Final = {f"ffn_{x}_exps": _each_expert(f"mlp.experts.{{}}.{x}_proj") for x in ("gate", "up", "down")}
SHARED: Final = {
    **{f"ffn_{x}_shexp": renamed(f"mlp.shared_experts.{x}_proj") for x in ("gate", "up", "down")},
    "ffn_gate_inp": renamed("mlp.gate"),
    "exp_probs_b": _exactly("mlp.gate.e_score_correction_bias"),
}
LATENT: Final = {
    **{f"attn_{x}": renamed(f"self_attn.{x}_proj") for x in ("q_a", "q_b", "kv_b")},
    "attn_kv_a_mqa": renamed("self_attn.kv_a_proj_with_mqa"),
    "attn_q_a_norm": renamed("self_attn.q_a_layernorm"),
    "attn_kv_a_norm": renamed("self_attn.kv_a_layernorm"),
    "attn_k_b": _latent_keys,
    "attn_v_b": _nothing,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The rules of one architecture: for tensors outside the layers, and for those inside, by GGUF name."""

    tables: Mapping[str, Rule]
    layer: Mapping[str, Rule]
    prefix: str = "model.layers."


def _names(*changes: Mapping[str, Rule], tables: Mapping[str, Rule] = TABLES) -> Names:
    layer = dict(PLAIN_LAYER)
    for change in changes:
        layer |= change
    return Names(tables=tables, layer=layer)


NAMES: Final[dict[str, Names]] = {
    "llama": _names(
        {"attn_q": _queries, "attn_k": _keys, "ffn_gate_inp": renamed("block_sparse_moe.gate")},
        {
            f"ffn_{x}_exps": _each_expert(f"block_sparse_moe.experts.{{}}.{w}")
            for x, w in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
        },
    ),
    "qwen2": _names(),
    "qwen3": _names(HEAD_NORMS),
    "qwen3moe": _names(HEAD_NORMS, EXPERTS, {"ffn_gate_inp": renamed("mlp.gate")}),
    "gemma2": _names(
        {
            "attn_norm": _gain("input_layernorm"),
            "post_attention_norm": _gain("post_attention_layernorm"),
            "ffn_norm": _gain("pre_feedforward_layernorm"),
            "post_ffw_norm": _gain("post_feedforward_layernorm"),
        },
        tables=TABLES | {"output_norm": _gain("model.norm")},
    ),
    "phi3": _names({"attn_qkv": renamed("self_attn.qkv_proj"), "ffn_up": renamed("mlp.gate_up_proj")}),
    "gpt2": Names(
        tables={
            "token_embd": renamed("transformer.wte"),
            "position_embd": renamed("transformer.wpe"),
            "output_norm": renamed("transformer.ln_f"),
            "output": renamed("lm_head"),
        },
        layer={
            "attn_norm": renamed("ln_1"),
            "ffn_norm": renamed("ln_2"),
            "attn_qkv": _conv1d("attn.c_attn"),
            "attn_output": _conv1d("attn.c_proj"),
            "ffn_up": _conv1d("mlp.c_fc"),
            "ffn_down": _conv1d("mlp.c_proj"),
        },
        prefix="transformer.h.",
    ),
    "gpt-oss": _names(
        {
            "post_attention_norm": renamed("post_attention_layernorm"),
            "attn_sinks": _exactly("self_attn.sinks"),
            "ffn_gate_inp": renamed("mlp.router"),
            "ffn_gate_exps": _gate_up("mlp.experts", in_turn=True),
            "ffn_up_exps": _nothing,
            "ffn_down_exps": _down("mlp.experts"),
        }
    ),
    "llama4": _names(
        {
            "ffn_gate_inp": renamed("feed_forward.router"),
            "ffn_gate_exps": _gate_up("feed_forward.experts", in_turn=False),
            "ffn_up_exps": _nothing,
            "ffn_down_exps": _down("feed_forward.experts"),
        },
        {f"ffn_{x}": renamed(f"feed_forward.{x}_proj") for x in ("gate", "up", "down")},
        {f"ffn_{x}_shexp": renamed(f"feed_forward.shared_expert.{x}_proj") for x in ("gate", "up", "down")},
    ),
    "glm4moe": _names(HEAD_NORMS, EXPERTS, SHARED, {"post_attention_norm": renamed("post_attention_layernorm")}),
    "deepseek2": _names(LATENT, EXPERTS, SHARED),
}
"""By general.architecture."""


def family_entries(header: Header, layer_count: int) -> dict[str, TensorEntry]:
    """The file's tensors under the names that the families know; those without a rule keep theirs.

    Layers from ``layer_count`` on predict further tokens and are left out, as `ROPE_FACTORS` is.
    """
    names, gguf = NAMES[header.architecture], header.gguf
    stored = {name: stored_entry(gguf, tensor) for name, tensor in gguf.tensors.items()}
    result: dict[str, TensorEntry] = {}
    for name, entry in stored.items():
        match = BLOCK.fullmatch(name)
        if name == ROPE_FACTORS or (match and layer_count <= int(match[1])):
            continue
        for made in _made(names, header, stored, entry, match):
            if made.name in result:
                msg = f"{gguf.path}: tensor {made.name!r} is there twice, as {name!r} besides; fetch the file again"
                raise BadModel(msg)
            result[made.name] = made
    return result


def _made(
    names: Names, header: Header, stored: Mapping[str, TensorEntry], entry: TensorEntry, match: re.Match[str] | None
) -> Iterator[TensorEntry]:
    if match is None:
        prefix, at = "", ""
        inside, _, suffix = entry.name.rpartition(".")
        rule = names.tables.get(inside)
    else:
        layer, inside, suffix = match.groups()
        prefix, at = f"{names.prefix}{layer}.", f"blk.{layer}."
        rule = names.layer.get(inside)
    if rule is None:
        yield entry
        return
    yield from rule(
        Found(
            entry=entry,
            prefix=prefix,
            suffix=suffix,
            beside=lambda other: stored.get(f"{at}{other}.{suffix}"),
            header=header,
        )
    )
