"""Rules that turn one GGUF tensor into those of Hugging Face's names: llama.cpp's own conventions undone.

Conventions: ``convert_hf_to_gguf.py`` of github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from wse.models.gguf.entries import (
    expanded_keys_and_values,
    joined,
    less_one,
    one_of,
    split_halves,
    swapped,
)
from wse.models.gguf.header import Header
from wse.models.tensors.tensor_entry import TensorEntry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """A tensor of a layer: its entry, its layer's prefix and its suffix in the new name, and its neighbours."""

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


def exactly(inside: str) -> Rule:
    """Another name, whole, whatever the suffix."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        yield replace(found.entry, name=found.prefix + inside)

    return rule


def queries(found: Found) -> Iterator[TensorEntry]:
    heads = found.header.size("attention.head_count")
    yield split_halves(found.entry, found.named("self_attn.q_proj"), heads)


def keys(found: Found) -> Iterator[TensorEntry]:
    yield split_halves(found.entry, found.named("self_attn.k_proj"), found.header.kv_heads)


def gain(inside: str) -> Rule:
    def rule(found: Found) -> Iterator[TensorEntry]:
        yield less_one(found.entry, found.named(inside))

    return rule


def conv1d(inside: str) -> Rule:
    """GPT-2's own checkpoints have matrices [in, out]."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        yield swapped(found.entry, found.named(inside))

    return rule


def each_expert(inside: str) -> Rule:
    """A stack of experts as single matrices; ``{}`` is the expert."""

    def rule(found: Found) -> Iterator[TensorEntry]:
        count = found.entry.shape[0]
        if len(found.entry.shape) != 3 or count != found.header.count("expert_count"):
            yield found.entry  # it is refused under its own name
            return
        for index in range(count):
            yield one_of(found.entry, found.named(inside.format(index)), index)

    return rule


def gate_up(experts: str, *, in_turn: bool) -> Rule:
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


def down(experts: str) -> Rule:
    def rule(found: Found) -> Iterator[TensorEntry]:
        name = f"{found.prefix}{experts}.down_proj"
        if found.suffix == "bias":
            yield replace(found.entry, name=f"{name}_bias")
        else:
            yield swapped(found.entry, name)

    return rule


def latent_keys(found: Found) -> Iterator[TensorEntry]:
    values = found.beside("attn_v_b")
    fits = values is not None and len(values.shape) == len(found.entry.shape) == 3
    if values is None or not fits or (values.shape[0], values.shape[2]) != found.entry.shape[:2]:
        yield found.entry
        return
    yield expanded_keys_and_values(found.entry, values, found.named("self_attn.kv_b_proj"))


def nothing(found: Found) -> Iterator[TensorEntry]:
    """Taken with its neighbour."""
    yield from ()
