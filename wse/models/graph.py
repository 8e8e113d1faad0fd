"""ModelSpec to op graph: a networkx DiGraph whose nodes are op names and carry one frozen Op each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import networkx as nx

from wse.errors import WseBug
from wse.models.spec import ModelSpec

_LAYER: Final = re.compile(r"layers\.[0-9]+\.")

Add = Callable[..., str]
"""Adds an op: name, kind, layer, weights, the ops whose results it reads, and its vectors; gives its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A node of the model graph. ``kind`` names its lowering, ``weights`` are canonical tensor names.

    ``vectors`` are trained vectors that the op uses besides; those of one group lie side by side.
    """

    name: str
    kind: str
    layer: int  # -1 outside the layers
    weights: tuple[str, ...]
    vectors: tuple[tuple[str, ...], ...] = ()

    def in_layer(self, layer: int) -> Op:
        """The op as it is in another layer of its kind; an op outside of the layers does not change."""
        if self.layer < 0:
            return self
        return Op(
            name=named_in(self.name, layer),
            kind=self.kind,
            layer=layer,
            weights=tuple(named_in(name, layer) for name in self.weights),
            vectors=tuple(tuple(named_in(name, layer) for name in group) for group in self.vectors),
        )


@lru_cache(maxsize=1 << 15)
def named_in(name: str, layer: int) -> str:
    """A name, or names joined by +, as of another layer.

    >>> named_in("prefill.layers.12.q+layers.12.k", 3)
    'prefill.layers.3.q+layers.3.k'
    """
    return _LAYER.sub(f"layers.{layer}.", name)


@lru_cache(maxsize=16)
def op_graph(spec: ModelSpec, scope: str = "model") -> nx.DiGraph[str]:
    """The ops of one decoder-only transformer, frozen; edges follow activations, residual edges included.

    ``scope``: ``model``, ``layers`` (no embedding, final norm or head) or ``product`` (one op, of weights [hidden,
    feed-forward]).
    """
    ends = scope == "model"
    graph: nx.DiGraph[str] = nx.DiGraph()

    def add(
        name: str,
        kind: str,
        layer: int,
        weights: tuple[str, ...],
        *inputs: str,
        vectors: tuple[tuple[str, ...], ...] = (),
    ) -> str:
        graph.add_node(name, op=Op(name=name, kind=kind, layer=layer, weights=weights, vectors=vectors))
        graph.add_edges_from((source, name) for source in inputs)
        return name

    if scope == "product":
        add("product", "product", 0, ("product",))
        return nx.freeze(graph)
    tables = ("embedding", "positions") if spec.learned_positions else ("embedding",)
    stream: tuple[str, ...] = (add("embedding", "embedding", -1, tables),) if ends else ()
    for index, layer in enumerate(spec.layers):
        attention = _heads if spec.latent is None else _latent
        mixture = layer.experts and spec.experts is not None
        feed_forward = _experts if mixture else _dense
        stream = attention(add, spec, index, stream)
        stream = feed_forward(add, spec, index, stream)
    if ends:
        norm = _norm(add, spec, "final_norm", -1, *stream)
        add("head", "head", -1, ("embedding" if spec.tied_embedding else "head",), norm)
    return nx.freeze(graph)


def _heads(add: Add, spec: ModelSpec, layer: int, stream: tuple[str, ...]) -> tuple[str, ...]:
    """Attention whose cache holds keys and values by head."""
    at = f"layers.{layer}"
    norm = _norm(add, spec, f"{at}.attention_norm", layer, *stream)
    gains = ((f"{at}.q_norm",), (f"{at}.k_norm",)) if spec.head_norm == "rms" else ()
    inward = tuple(f"{at}.{name}" for name in "qkv")
    qkv = add(f"{at}.qkv", "qkv", layer, inward, norm, vectors=_biases(inward, wanted=spec.qkv_bias) + gains)
    sinks = ((f"{at}.sinks",),) if spec.sinks else ()
    attention = add(f"{at}.attention", "attention", layer, (), qkv, vectors=sinks)
    names = (f"{at}.output", "output", f"{at}.post_attention_norm")
    return _back(add, spec, names, (f"{at}.o",), layer, attention, stream, biased=spec.output_bias)


def _latent(add: Add, spec: ModelSpec, layer: int, stream: tuple[str, ...]) -> tuple[str, ...]:
    """Attention whose cache holds one latent vector a token."""
    at = f"layers.{layer}"
    ranked = spec.latent is not None and spec.latent.q_rank > 0

    def named(*names: str) -> tuple[str, ...]:
        return tuple(f"{at}.{name}" for name in names)

    norm = _norm(add, spec, f"{at}.attention_norm", layer, *stream)
    down = named("q_a", "k_rope", "kv_a") if ranked else named("k_rope", "kv_a")
    gains = named("q_a_norm", "kv_a_norm") if ranked else named("kv_a_norm")
    biases = _biases(down, wanted=spec.qkv_bias)
    compress = add(f"{at}.compress", "latent_compress", layer, down, norm, vectors=biases)
    latent = add(f"{at}.latent_norm", "latent_norm", layer, gains, compress)
    query = add(f"{at}.query", "latent_query", layer, named("q_nope", "q_rope", "k_b"), latent)
    attention = add(f"{at}.attention", "latent_attention", layer, (), query, latent)
    names = (f"{at}.output", "latent_output", f"{at}.post_attention_norm")
    return _back(add, spec, names, named("v_b", "o"), layer, attention, stream, biased=spec.output_bias)


def _dense(add: Add, spec: ModelSpec, layer: int, stream: tuple[str, ...]) -> tuple[str, ...]:
    """One feed-forward block that every token uses."""
    at = f"layers.{layer}"
    norm = _norm(add, spec, f"{at}.mlp_norm", layer, *stream)
    names = (f"{at}.gate", f"{at}.up") if spec.gated else (f"{at}.up",)
    gate_up = add(f"{at}.gate_up", "gate_up", layer, names, norm, vectors=_biases(names, wanted=spec.ffn_bias))
    back = (f"{at}.down", "down", f"{at}.post_mlp_norm")
    return _back(add, spec, back, (f"{at}.down",), layer, gate_up, stream, biased=spec.ffn_bias)


def _experts(add: Add, spec: ModelSpec, layer: int, stream: tuple[str, ...]) -> tuple[str, ...]:
    """A mixture of feed-forward blocks, of which each token uses some, and one that all use where there is one."""
    assert spec.experts is not None
    at = f"layers.{layer}"
    norm = _norm(add, spec, f"{at}.mlp_norm", layer, *stream)
    correction = ((f"{at}.router_correction",),) if spec.experts.correction else ()
    router = (f"{at}.router",)
    added = _biases(router, wanted=spec.experts.router_bias) + correction
    chosen = add(f"{at}.router", "router", layer, router, norm, vectors=added)
    inward, down = (f"{at}.experts.gate", f"{at}.experts.up"), (f"{at}.experts.down",)
    biases = _biases(inward, wanted=spec.ffn_bias)
    inner = add(f"{at}.experts", "experts", layer, inward, norm, chosen, vectors=biases)
    back = (f"{at}.experts_down", "experts_down", f"{at}.post_mlp_norm")
    if not spec.experts.shared_size:
        return _back(add, spec, back, down, layer, inner, stream, biased=spec.ffn_bias)
    if spec.post_norms:
        message = f"{spec.name}: no op adds up experts and a shared block before they are normalised"
        raise WseBug(message)
    stream = _back(add, spec, back, down, layer, inner, stream, biased=spec.ffn_bias)
    names, down = (f"{at}.shared.gate", f"{at}.shared.up"), (f"{at}.shared.down",)
    biases = _biases(names, wanted=spec.ffn_bias)
    shared = add(f"{at}.shared_gate_up", "shared_gate_up", layer, names, norm, vectors=biases)
    return _back(add, spec, (f"{at}.shared_down", "shared_down", ""), down, layer, shared, stream, biased=spec.ffn_bias)


def _norm(add: Add, spec: ModelSpec, name: str, layer: int, *inputs: str, kind: str = "norm") -> str:
    return add(name, kind, layer, (name,), *inputs, vectors=_biases((name,), wanted=spec.norm == "layer"))


def _back(
    add: Add,
    spec: ModelSpec,
    names: tuple[str, str, str],
    weights: tuple[str, ...],
    layer: int,
    source: str,
    stream: tuple[str, ...],
    *,
    biased: bool,
) -> tuple[str, ...]:
    """A projection back to the residual stream: its name, kind, and the norm that may stand in between."""
    name, kind, post = names
    vectors = _biases(weights[-1:], wanted=biased)
    if not spec.post_norms:
        return (add(name, kind, layer, weights, source, *stream, vectors=vectors),)
    output = add(name, kind, layer, weights, source, vectors=vectors)
    return (_norm(add, spec, post, layer, output, *stream, kind="post_norm"),)


def _biases(names: tuple[str, ...], *, wanted: bool) -> tuple[tuple[str, ...], ...]:
    return (tuple(f"{name}_bias" for name in names),) if wanted else ()


def ops_in_order(graph: nx.DiGraph[str]) -> list[Op]:
    """Ops in the order in which they were added, which is topological: an op is added after those that it reads."""
    return list(nx.get_node_attributes(graph, "op").values())
