"""ModelSpec to op graph: a networkx DiGraph whose nodes are op names and carry one frozen Op each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import networkx as nx

from wse.errors import BadInput, WseBug
from wse.models.spec import Layer, ModelSpec
from wse_mappings.cuts.layer_parts import ATTENTION, BLOCK, WHOLE, Parts

_LAYER: Final = re.compile(r"layers\.[0-9]+\.")

Names = tuple[str, ...]

PARTS_MARK: Final = ":"
"""Stands in the name of an op behind that of the op of a whole block, and before the parts that it works on."""

PartsOfLayers = tuple[tuple[Parts, ...], ...]
"""The parts of each layer that are at one place each, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A node of the model graph. ``kind`` selects its lowering, ``weights`` are canonical tensor names.

    ``vectors`` are trained vectors that the op uses besides; those of one group lie side by side. ``parts`` are
    those of its layer that it is in: attention, or parts of the feed-forward block, whose features it works on.
    """

    name: str
    kind: str
    layer: int  # -1 outside the layers
    weights: tuple[str, ...]
    vectors: tuple[tuple[str, ...], ...] = ()
    parts: Parts = ATTENTION

    def in_layer(self, layer: int) -> Op:
        """Return the op in another layer of its kind; an op outside of the layers does not change."""
        if self.layer < 0:
            return self
        return Op(
            name=name_in_layer(self.name, layer),
            kind=self.kind,
            layer=layer,
            weights=tuple(name_in_layer(name, layer) for name in self.weights),
            vectors=tuple(tuple(name_in_layer(name, layer) for name in group) for group in self.vectors),
            parts=self.parts,
        )


@lru_cache(maxsize=1 << 15)
def name_in_layer(name: str, layer: int) -> str:
    """Return a name, or names joined by +, for another layer.

    >>> name_in_layer("prefill.layers.12.q+layers.12.k", 3)
    'prefill.layers.3.q+layers.3.k'
    """
    return _LAYER.sub(f"layers.{layer}.", name)


@lru_cache(maxsize=16)
def op_graph(spec: ModelSpec, scope: str = "model", placed: PartsOfLayers = ()) -> nx.DiGraph[str]:
    """Return the graph of ops of a decoder-only transformer, frozen.

    Edges follow activations, residual edges included.

    ``scope``: ``model``, ``layers`` (no embedding, final norm or head) or ``product`` (one op, of weights [hidden,
    feed-forward]). Of layers that are ``placed`` in parts there are the ops of each of these, and no others.

    Raises:
        BadInput: a feed-forward block is cut whose output is normalised as a whole.
    """
    builder = _GraphBuilder(spec)
    if scope == "product":
        builder.graph.add_node("product", op=Op(name="product", kind="product", layer=0, weights=("product",)))
        return nx.freeze(builder.graph)
    if scope == "model":
        tables = ("embedding", "positions") if spec.learned_positions else ("embedding",)
        builder.stream = (builder.add("embedding", "embedding", tables),)
    for builder.layer, layer in enumerate(spec.layers):
        builder.before_block = builder.stream
        for parts in placed[builder.layer] if placed else (WHOLE,):
            builder.add_parts(layer, parts)
    if scope == "model":
        builder.layer = -1
        norm = builder.add_norm("final_norm", *builder.stream)
        builder.add("head", "head", ("embedding" if spec.tied_embedding else "head",), norm)
    return nx.freeze(builder.graph)


class _GraphBuilder:
    """A builder of the graph. Names are given without ``layers.I.``, which is prepended inside of ``layer``.

    ``stream`` has the op that wrote the residual stream last; each block reads it and adds to it.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.layer = -1  # outside of the layers
        self.stream: tuple[str, ...] = ()
        self.parts = ATTENTION  # of the layer, whose ops are added
        self.before_block: tuple[str, ...] = ()  # the stream as the block reads it

    def add(self, name: str, kind: str, weights: Names, *inputs: str, vectors: tuple[Names, ...] = ()) -> str:
        """Add an op that reads the results of ``inputs`` (full names); return its full name."""
        prefix = "" if self.layer < 0 else f"layers.{self.layer}."
        op = Op(
            name=prefix + name + parts_suffix(self.parts),
            kind=kind,
            layer=self.layer,
            weights=tuple(prefix + weight for weight in weights),
            vectors=tuple(tuple(prefix + vector for vector in group) for group in vectors),
            parts=self.parts,
        )
        self.graph.add_node(op.name, op=op)
        self.graph.add_edges_from((source, op.name) for source in inputs)
        return op.name

    def add_parts(self, layer: Layer, parts: Parts) -> None:
        """Add some parts of a layer."""
        if parts.has_attention and self.spec.latent is None:
            self.add_attention()
        elif parts.has_attention:
            self.add_latent_attention()
        if parts.block is None:
            return
        self.parts = parts.block
        if parts.block.first == BLOCK.first:
            self.before_block = self.stream
        if layer.experts and self.spec.experts is not None:
            self.add_experts()
        else:
            self.add_feed_forward()
        self.parts = ATTENTION

    def add_norm(self, name: str, *inputs: str, kind: str = "norm") -> str:
        """Add a norm, whose gain has its name."""
        return self.add(name, kind, (name,), *inputs, vectors=_biases((name,), wanted=self.spec.norm == "layer"))

    def add_attention(self) -> None:
        """Add attention whose cache stores keys and values by head."""
        spec, inward = self.spec, ("q", "k", "v")
        norm = self.add_norm("attention_norm", *self.stream)
        gains = (("q_norm",), ("k_norm",)) if spec.head_norm == "rms" else ()
        qkv = self.add("qkv", "qkv", inward, norm, vectors=_biases(inward, wanted=spec.qkv_bias) + gains)
        attention = self.add("attention", "attention", (), qkv, vectors=(("sinks",),) if spec.sinks else ())
        self._add_back("output", "output", ("o",), attention, "post_attention_norm", biased=spec.output_bias)

    def add_latent_attention(self) -> None:
        """Add attention whose cache stores a latent vector and a rotated key of each token."""
        spec = self.spec
        ranked = spec.latent is not None and spec.latent.q_rank > 0
        norm = self.add_norm("attention_norm", *self.stream)
        down = ("q_a", "k_rope", "kv_a") if ranked else ("k_rope", "kv_a")
        gains = ("q_a_norm", "kv_a_norm") if ranked else ("kv_a_norm",)
        compress = self.add("compress", "latent_compress", down, norm, vectors=_biases(down, wanted=spec.qkv_bias))
        latent = self.add("latent_norm", "latent_norm", gains, compress)
        query = self.add("query", "latent_query", ("q_nope", "q_rope", "k_b"), latent)
        attention = self.add("attention", "latent_attention", (), query, latent)
        self._add_back(
            "output", "latent_output", ("v_b", "o"), attention, "post_attention_norm", biased=spec.output_bias
        )

    def add_feed_forward(self) -> None:
        """Add a feed-forward block that every token uses."""
        spec = self.spec
        norm = self.add_norm("mlp_norm", *self.before_block)
        inward = ("gate", "up") if spec.gated else ("up",)
        gate_up = self.add("gate_up", "gate_up", inward, norm, vectors=_biases(inward, wanted=spec.ffn_bias))
        self._add_back("down", "down", ("down",), gate_up, "post_mlp_norm", biased=spec.ffn_bias)

    def add_experts(self) -> None:
        """Add a mixture of feed-forward blocks, and the shared block if there is one."""
        spec = self.spec
        assert spec.experts is not None
        biased, inward, shared = spec.ffn_bias, ("experts.gate", "experts.up"), ("shared.gate", "shared.up")
        norm = self.add_norm("mlp_norm", *self.before_block)
        correction = (("router_correction",),) if spec.experts.correction else ()
        added = _biases(("router",), wanted=spec.experts.router_bias) + correction
        router = self.add("router", "router", ("router",), norm, vectors=added)
        inner = self.add("experts", "experts", inward, norm, router, vectors=_biases(inward, wanted=biased))
        if spec.experts.shared_size and spec.post_norms:
            message = f"{spec.name}: no op adds up experts and a shared block before they are normalised"
            raise WseBug(message)
        self._add_back("experts_down", "experts_down", ("experts.down",), inner, "post_mlp_norm", biased=biased)
        if spec.experts.shared_size:
            block = self.add("shared_gate_up", "shared_gate_up", shared, norm, vectors=_biases(shared, wanted=biased))
            self._add_back("shared_down", "shared_down", ("shared.down",), block, "", biased=biased)

    def _add_back(self, name: str, kind: str, weights: Names, source: str, post_norm: str, *, biased: bool) -> None:
        """Add a projection back to the residual stream, with an optional norm before it."""
        vectors = _biases(weights[-1:], wanted=biased and self.parts.first <= BLOCK.first)
        if self.spec.post_norms:
            if self.parts.cuts_block:
                message = f"{self.spec.name}: layer {self.layer}: a block that is normalised as a whole stays whole"
                raise BadInput(message)
            output = self.add(name, kind, weights, source, vectors=vectors)
            self.stream = (self.add_norm(post_norm, output, *self.stream, kind="post_norm"),)
        else:
            self.stream = (self.add(name, kind, weights, source, *self.stream, vectors=vectors),)


def parts_suffix(parts: Parts) -> str:
    """Return the suffix of the name of an op, or of a table, that works on parts of a block only.

    >>> parts_suffix(ATTENTION), parts_suffix(BLOCK), parts_suffix(Parts(1, 3))
    ('', '', ':1-2')
    """
    return f"{PARTS_MARK}{parts.first}-{parts.last - 1}" if parts.cuts_block else ""


def _biases(names: Names, *, wanted: bool) -> tuple[Names, ...]:
    return (tuple(f"{name}_bias" for name in names),) if wanted else ()


def ops_in_order(graph: nx.DiGraph[str]) -> list[Op]:
    """Return ops in topological order, the order in which they were added."""
    return list(nx.get_node_attributes(graph, "op").values())
