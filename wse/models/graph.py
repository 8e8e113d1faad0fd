"""The op graph of a model: a networkx DiGraph whose nodes are op names, each with a frozen `Op`."""

from __future__ import annotations

from functools import lru_cache

import networkx as nx

from wse.errors import BadInput, WseBug
from wse.models.op import Op, parts_suffix
from wse.models.spec import Layer, ModelSpec
from wse_mappings.cuts.layer_parts import ATTENTION, BLOCK, WHOLE, Parts

Names = tuple[str, ...]

OF_HEADS = ("qkv", "attention", "output")
"""Kinds of ops that process the heads of standard attention."""

PartsOfLayers = tuple[tuple[Parts, ...], ...]
"""For each layer, the groups of parts that are placed together, in order."""


@lru_cache(maxsize=16)
def op_graph(spec: ModelSpec, scope: str = "model", placed_parts: PartsOfLayers = ()) -> nx.DiGraph[str]:
    """Build the graph of the operations (ops) of a decoder-only transformer.

    Edges lead from each op to the ops that read its result, including residual connections. The
    graph cannot be changed.

    Args:
        spec: Specification of the model.
        scope: ``model`` for the whole model; ``layers`` for the layers without embedding, final
            norm and head; ``product`` for a single op with weights [hidden, feed-forward].
        placed_parts: How each layer is divided, if parts of it are placed on different regions of
            PEs. Each group of parts has its own ops. By default, no layer is divided.

    Raises:
        BadInput: A feed-forward block is divided although its output is normalised as a whole.
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
        for parts in placed_parts[builder.layer] if placed_parts else (WHOLE,):
            builder.add_parts(layer, parts)
    if scope == "model":
        builder.layer = -1
        norm = builder.add_norm("final_norm", *builder.stream)
        table = "embedding" if spec.tied_embedding else "head"
        builder.add("head", "head", (table,), norm, vectors=_biases(("head",), present=spec.head_bias))
    return nx.freeze(builder.graph)


class _GraphBuilder:
    """Builder that adds a model's ops to a graph in the order in which they run.

    Methods expect names within a layer, such as ``qkv``, and prepend ``layers.I.`` to them.

    Attributes:
        graph: The graph so far.
        layer: Index of the current layer; -1 outside the layers.
        stream: Names of the ops whose results add up to the current residual stream. The next block
            reads them.
        parts: Parts of the layer whose ops are being added.
        before_block: Names of the ops whose results the feed-forward block of the layer reads.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.layer = -1
        self.stream: tuple[str, ...] = ()
        self.parts = ATTENTION
        self.before_block: tuple[str, ...] = ()

    def add(self, name: str, kind: str, weights: Names, *inputs: str, vectors: tuple[Names, ...] = ()) -> str:
        """Add an op and return its full name.

        Args:
            name: Name within the layer.
            kind: Type of the op.
            weights: Names of its weight tensors within the layer.
            inputs: Full names of the ops whose results it reads.
            vectors: Names of additional trained vectors, within the layer, in groups that are
                stored side by side.
        """
        prefix = "" if self.layer < 0 else f"layers.{self.layer}."
        norms = [self.graph.nodes[source]["op"] for source in inputs[:1]]
        has_window = self.layer >= 0 and self.spec.layers[self.layer].window is not None
        op = Op(
            name=prefix + name + parts_suffix(self.parts),
            kind=kind,
            layer=self.layer,
            weights=tuple(prefix + weight for weight in weights),
            vectors=tuple(tuple(prefix + vector for vector in group) for group in vectors),
            parts=self.parts,
            input_norm=norms[0].weights[0] if norms and norms[0].kind == "norm" else "",
            windowed=has_window and self.spec.window_heads is not None and kind in OF_HEADS,
        )
        self.graph.add_node(op.name, op=op)
        self.graph.add_edges_from((source, op.name) for source in inputs)
        return op.name

    def add_parts(self, layer: Layer, parts: Parts) -> None:
        """Add the ops of some parts of the current layer: attention, feed-forward, or both."""
        if parts.has_attention and layer.linear:
            self.add_linear_attention()
        elif parts.has_attention and self.spec.latent is None:
            self.add_attention()
        elif parts.has_attention:
            self.add_latent_attention()
        if parts.block is None:
            return
        self.parts = parts.block
        if parts.block.first == BLOCK.first and not self.spec.parallel_blocks:
            self.before_block = self.stream
        if layer.experts and self.spec.experts is not None:
            self.add_experts()
        else:
            self.add_feed_forward()
        if self.spec.stream_scale and parts.block.last == BLOCK.last:
            scale = self.add("stream_scale", "stream_scale", (), *self.stream, vectors=(("stream_scale",),))
            self.stream = (scale,)
        self.parts = ATTENTION

    def add_input(self, block: str, *inputs: str) -> str:
        """Add the op that provides the input of a block, and return its full name.

        This is a norm of the residual stream, or a copy if the layer does not normalise the input.

        Args:
            block: Name of the block: ``attention`` or ``mlp``.
            inputs: Full names of the ops that wrote the residual stream.
        """
        if self.spec.has_pre_norms(self.spec.layers[self.layer]):
            return self.add_norm(f"{block}_norm", *inputs)
        return self.add(f"{block}_input", "block_input", (), *inputs)

    def add_norm(self, name: str, *inputs: str, kind: str = "norm") -> str:
        """Add a norm and return its full name. The norm's gain has the same name."""
        return self.add(name, kind, (name,), *inputs, vectors=_biases((name,), present=self.spec.has_norm_bias))

    def add_attention(self) -> None:
        """Add the ops of standard attention, which caches keys and values for each KV head."""
        spec = self.spec.with_heads_of(self.spec.layers[self.layer])
        values, gates = () if spec.keys_as_values else ("v",), ("q_gate",) if spec.attention_gate else ()
        projections = ("q", "k", *values, *gates)
        norm = self.add_input("attention", *self.stream)
        gains = (("q_norm",), ("k_norm",)) if spec.has_head_gains else ()
        qkv = self.add("qkv", "qkv", projections, norm, vectors=_biases(projections, present=spec.qkv_bias) + gains)
        attention = self.add("attention", "attention", (), qkv, vectors=(("sinks",),) if spec.sinks else ())
        self._add_back("output", "output", ("o",), attention, "post_attention_norm", biased=spec.output_bias)

    def add_linear_attention(self) -> None:
        """Add the ops of linear attention.

        It has a state of constant size for each user instead of a cache that grows.
        """
        norm = self.add_input("attention", *self.stream)
        inputs = tuple(f"delta.{name}" for name in ("q", "k", "v", "z", "b", "a"))
        projected = self.add("delta_inputs", "delta_inputs", inputs, norm)
        convolutions = tuple(f"delta.conv_{name}" for name in "qkv")
        decay = ("delta.log_rate", "delta.decay_bias")
        result = self.add("delta_rule", "delta_rule", convolutions, projected, vectors=(decay,))
        gated = self.add("delta_norm", "delta_norm", (), result, projected, vectors=(("delta.norm",),))
        self._add_back("delta_output", "delta_output", ("delta.o",), gated, "post_attention_norm", biased=False)

    def add_latent_attention(self) -> None:
        """Add the ops of latent attention.

        Its cache stores a latent vector and a rotated key per token.
        """
        spec = self.spec
        has_query_latent = spec.latent is not None and spec.latent.q_rank > 0
        norm = self.add_input("attention", *self.stream)
        down_projections = ("q_a", "k_rope", "kv_a") if has_query_latent else ("k_rope", "kv_a")
        gains = ("q_a_norm", "kv_a_norm") if has_query_latent else ("kv_a_norm",)
        compress = self.add(
            "compress",
            "latent_compress",
            down_projections,
            norm,
            vectors=_biases(down_projections, present=spec.qkv_bias),
        )
        latent = self.add("latent_norm", "latent_norm", gains, compress)
        query = self.add("query", "latent_query", ("q_nope", "q_rope", "k_b"), latent)
        attention = self.add("attention", "latent_attention", (), query, latent)
        self._add_back(
            "output", "latent_output", ("v_b", "o"), attention, "post_attention_norm", biased=spec.output_bias
        )

    def add_feed_forward(self) -> None:
        """Add the ops of a dense feed-forward block, all of whose weights every token uses."""
        spec = self.spec
        norm = self.add_input("mlp", *self.before_block)
        projections = ("gate", "up") if spec.gated else ("up",)
        gate_up = self.add("gate_up", "gate_up", projections, norm, vectors=_biases(projections, present=spec.ffn_bias))
        self._add_back("down", "down", ("down",), gate_up, "post_mlp_norm", biased=spec.ffn_bias)

    def add_experts(self) -> None:
        """Add a mixture of experts, and the shared block if the model has one.

        A shared block is a feed-forward block that processes every token in addition to the
        selected experts. Router, experts and shared block read the same normalised vectors, or each
        of them has a norm of its own.

        Raises:
            WseBug: The model adds up experts and a shared block in a way for which there is no op.
        """
        spec, experts = self.spec, self.spec.experts
        assert experts is not None
        biased, separate, inputs = spec.ffn_bias, experts.separate_norms, ("experts.gate", "experts.up")
        has_normed_sum = experts.shared_size > 0 and spec.has_post_norms(spec.layers[self.layer])
        if has_normed_sum != separate or (separate and spec.norm != "rms"):
            raise WseBug(f"{spec.name}: no op adds up experts and a shared block with these norms")
        if separate:
            norm = self.add_norm("router_norm", *self.before_block, kind="unit_norm")
        else:
            norm = self.add_input("mlp", *self.before_block)
        correction = (("router_correction",),) if experts.correction else ()
        scale = (("expert_scale",),) if experts.expert_scale else ()
        vectors = _biases(("router",), present=experts.router_bias) + correction + scale
        router = self.add("router", "router", ("router",), norm, vectors=vectors)
        norm = self.add_norm("expert_norm", *self.before_block) if separate else norm
        gate_up = self.add("experts", "experts", inputs, norm, router, vectors=_biases(inputs, present=biased))
        post_norm = "" if separate else "post_mlp_norm"
        outputs = [self._add_back("experts_down", "experts_down", ("experts.down",), gate_up, post_norm, biased=biased)]
        if experts.shared_size:
            projections, gate = ("shared.gate", "shared.up"), ("shared.scale",) if experts.shared_gate else ()
            norm = self.add_input("mlp", *self.before_block) if separate else norm
            biases = _biases(projections, present=biased)
            block = self.add("shared_gate_up", "shared_gate_up", projections + gate, norm, vectors=biases)
            outputs.append(self._add_back("shared_down", "shared_down", ("shared.down",), block, "", biased=biased))
        if separate:
            block_sum = self.add("block_sum", "block_sum", ("expert_post_norm", "shared_post_norm"), *outputs)
            self.stream = (self.add_norm("post_mlp_norm", block_sum, *self.stream, kind="post_norm"),)

    def _add_back(self, name: str, kind: str, weights: Names, source: str, post_norm: str, *, biased: bool) -> str:
        """Add the last op of a block, which adds the output of the block to the residual stream.

        The op multiplies by the last weights of the block, such as the output projection of
        attention. If the layer normalises block outputs, a norm follows.

        Args:
            name: Name of the op within the layer.
            kind: Type of the op.
            weights: Names of its weights within the layer; the last one is the projection.
            source: Full name of the op whose result is projected.
            post_norm: Name of the norm after the projection; "" if a later op normalises the output
                of a block and adds it.
            biased: Whether the projection has a bias. Only the first part of a divided block adds
                it.

        Returns:
            Full name of the op that projects.

        Raises:
            BadInput: The block is divided although its output is normalised as a whole.
            WseBug: The model normalises block outputs, and also scales them or runs attention and
                feed-forward block in parallel.
        """
        vectors = _biases(weights[-1:], present=biased and self.parts.first <= BLOCK.first)
        if self.spec.has_post_norms(self.spec.layers[self.layer]):
            if self.spec.residual_scale != 1.0 or self.spec.parallel_blocks:
                raise WseBug(
                    f"{self.spec.name}: no op scales normalised outputs of blocks, or adds those of parallel ones"
                )
            if self.parts.cuts_block:
                raise BadInput(
                    f"{self.spec.name}: layer {self.layer}: a block that is normalised as a whole stays whole"
                )
            output = self.add(name, kind, weights, source, vectors=vectors)
            if post_norm:
                self.stream = (self.add_norm(post_norm, output, *self.stream, kind="post_norm"),)
            return output
        self.stream = (self.add(name, kind, weights, source, *self.stream, vectors=vectors),)
        return self.stream[0]


def _biases(names: Names, *, present: bool) -> tuple[Names, ...]:
    """Return the names of the biases of several projections, as one group of vectors.

    The result is () if the projections have no biases.

    Args:
        names: Names of the projections.
        present: Whether the projections have biases.
    """
    return (tuple(f"{name}_bias" for name in names),) if present else ()


def ops_in_order(graph: nx.DiGraph[str]) -> list[Op]:
    """Return the operations (ops) of a model's graph in the order in which they run."""
    return list(nx.get_node_attributes(graph, "op").values())
