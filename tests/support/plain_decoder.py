"""Reference decoder in numpy float64 that implements every trait of `ModelSpec`.

It computes all positions of a prompt at once, with undivided matrices and without a cache. It follows the definitions
in `wse.models.spec` and `wse.models.tensors.model_tensors`.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from plain_router import one_expert, routes

from wse.models.attention_traits import Rope
from wse.models.spec import Layer, ModelSpec

F64 = npt.NDArray[np.float64]


def latent_attention(spec: ModelSpec, w: Callable[[str], F64], rotated: Callable[[F64], F64], x: F64) -> F64:
    """Return the output of a block with latent attention, ``[tokens, hidden]``.

    Args:
        spec: The model.
        w: Function from names within the layer to tensors.
        rotated: Function that applies the rotary embedding to ``[tokens, heads, rope size]``.
        x: Normalised input, ``[tokens, hidden]``.
    """
    assert spec.latent is not None
    sizes, tokens, heads = spec.latent, len(x), spec.head_count

    def linear(name: str, x: F64) -> F64:
        bias = spec.qkv_bias if name != "o" else spec.output_bias
        added = w(f"{name}_bias") if bias and name in ("q_a", "k_rope", "kv_a", "o") else 0.0
        return np.asarray(x @ w(name).T + added)

    def normed(name: str, x: F64) -> F64:
        scaled = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + sizes.norm_eps)
        return np.asarray(scaled * (w(name) + spec.norm_unit_offset))

    source = normed("q_a_norm", linear("q_a", x)) if sizes.q_rank else x
    latent = normed("kv_a_norm", linear("kv_a", x))
    q_nope, q_rope = (linear(name, source).reshape(tokens, heads, -1) for name in ("q_nope", "q_rope"))
    k_nope, value = (linear(name, latent).reshape(tokens, heads, -1) for name in ("k_b", "v_b"))
    k_rope = np.repeat(rotated(linear("k_rope", x)[:, None]), heads, axis=1)
    queries, keys = np.concatenate([rotated(q_rope), q_nope], axis=2), np.concatenate([k_rope, k_nope], axis=2)
    scores = np.einsum("qhf,khf->hqk", queries, keys) * spec.attention_scale
    weights = np.where(np.tri(tokens, dtype=bool), np.exp(scores), 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    return linear("o", np.einsum("hqk,khf->qhf", weights, value).reshape(tokens, -1))


OnResult = Callable[[str, F64], None]
"""Callback that gets the name of an op of `wse.models.op` and its result, ``[tokens, ...]``."""


def plain_logits(
    spec: ModelSpec,
    tensor: Callable[[str], npt.NDArray[np.generic]],
    ids: Sequence[int],
    on_result: OnResult = lambda name, values: None,
) -> F64:
    """Compute the logits of all positions of a sequence.

    Args:
        spec: The model.
        tensor: Function from canonical names to tensors.
        ids: Token ids.
        on_result: Called with the name and the result of each op.

    Returns:
        float64 ``[len(ids), vocabulary]``: row i predicts the token after the first i + 1 ids.
    """

    def w(name: str) -> F64:
        return np.asarray(tensor(name), np.float64)

    x = w("embedding")[list(ids)] * spec.embedding_scale
    if spec.learned_positions:
        x = x + w("positions")[: len(ids)]
    on_result("embedding", x)
    for index, layer in enumerate(spec.layers):

        def of(name: str, index: int = index) -> F64:
            return w(f"layers.{index}.{name}")

        def report(name: str, values: F64, index: int = index) -> None:
            on_result(f"layers.{index}.{name}", values)

        source = x
        normed = _norm(spec, of, "attention_norm", x) if spec.has_pre_norms(layer) else x
        report("attention_norm", normed)
        if layer.linear:
            added = _linear_attention(spec, of, normed, report)
        elif spec.latent is None:
            added = _attention(spec.with_heads_of(layer), layer, of, normed, report)
        else:
            added = latent_attention(spec, of, partial(_rotated, spec.rope_of(layer)), normed)
        post_norms = ("post_attention_norm", "post_mlp_norm") if spec.has_post_norms(layer) else ("", "")
        x = _add_to_residual(spec, of, ("delta_output" if layer.linear else "output", post_norms[0]), x, added, report)
        source = source if spec.parallel_blocks else x
        normed = _norm(spec, of, "mlp_norm", source) if spec.has_pre_norms(layer) else source
        report("mlp_norm", normed)
        feed_forward, back = (_mixture, "experts_down") if layer.experts else (_feed_forward, "down")
        if layer.experts and spec.experts is not None and spec.experts.shared_size:
            back = "shared_down"
        if layer.experts and spec.experts is not None and spec.experts.separate_norms:
            feed_forward, back = partial(_normed_blocks, source), "block_sum"
        added = feed_forward(spec, of, normed, report)
        x = _add_to_residual(spec, of, (back, post_norms[1]), x, added, report)
        if spec.stream_scale:
            x = x * of("stream_scale")
            report("stream_scale", x)
    normed = _norm(spec, w, "final_norm", x)
    on_result("final_norm", normed)
    outputs = normed @ w("embedding" if spec.tied_embedding else "head").T + (w("head_bias") if spec.head_bias else 0.0)
    logits = _capped(spec.logit_scale * outputs, spec.logit_cap)
    on_result("head", logits)
    return logits


def _add_to_residual(
    spec: ModelSpec, w: Callable[[str], F64], ops: tuple[str, str], x: F64, added: F64, report: OnResult
) -> F64:
    """Add the output of a block to the residual stream; ``ops`` are the projection and the post-norm, "" if none."""
    projected, post = ops
    if not post:
        report(projected, x + spec.residual_scale * added)
        return x + spec.residual_scale * added
    report(projected, added)
    x = x + _norm(spec, w, post, added)
    report(post, x)
    return x


def _norm(spec: ModelSpec, w: Callable[[str], F64], name: str, x: F64) -> F64:
    gain = w(name) + float(spec.norm_unit_offset)
    if spec.norm == "layer":
        centred = x - x.mean(axis=-1, keepdims=True)
        return _rms(centred, spec.norm_eps) * gain + (w(f"{name}_bias") if spec.norm_bias else 0.0)
    return _rms(x, spec.norm_eps) * gain


def _rms(x: F64, eps: float) -> F64:
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps))


def _capped(x: F64, cap: float | None) -> F64:
    return x if cap is None else np.asarray(cap * np.tanh(x / cap))


def _linear(w: Callable[[str], F64], name: str, x: F64, *, bias: bool) -> F64:
    out = x @ w(name).T
    return out + w(f"{name}_bias") if bias else out


def _rotated(rope: Rope, x: F64) -> F64:
    """Apply the rotary embedding to x ``[tokens, heads, features]``."""
    half = len(rope.frequencies)
    angle = np.arange(len(x))[:, None, None] * np.array(rope.frequencies)
    cosine, sine = rope.multiplier * np.cos(angle), rope.multiplier * np.sin(angle)
    first, second, rest = np.split(x, [half, 2 * half], axis=-1)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine, rest], axis=-1)


def _attention(spec: ModelSpec, layer: Layer, w: Callable[[str], F64], x: F64, report: OnResult) -> F64:
    tokens, rope = len(x), spec.rope_of(layer)
    q, k, v = (_linear(w, name, x, bias=spec.qkv_bias) for name in ("qkk" if spec.keys_as_values else "qkv"))
    if spec.head_norm == "rms_all":
        offset = float(spec.norm_unit_offset)
        q, k = (_rms(heads, spec.norm_eps) * (w(f"{name}_norm") + offset) for name, heads in (("q", q), ("k", k)))
    q, k, v = (heads.reshape(tokens, -1, spec.head_size) for heads in (q, k, v))
    if spec.head_norm == "rms":
        offset = float(spec.norm_unit_offset)
        q, k = (_rms(heads, spec.norm_eps) * (w(f"{name}_norm") + offset) for name, heads in (("q", q), ("k", k)))
    if spec.value_norm:
        v = _rms(v, spec.norm_eps)
    if rope is not None:
        q, k = _rotated(rope, q), _rotated(rope, k)
        if spec.head_norm == "l2":
            q, k = _rms(q, spec.norm_eps), _rms(k, spec.norm_eps)
    scale = spec.position_scale
    if scale is not None and scale.rotary == (rope is not None):
        far = np.floor((np.arange(tokens) + scale.first) / scale.floor_tokens)
        q = q * (1 + scale.coefficient * np.log1p(far))[:, None, None]
    report("qkv", np.concatenate([q, k, v], axis=1))
    k, v = (np.repeat(heads, spec.queries_per_kv, axis=1) for heads in (k, v))
    scores = _capped(np.einsum("qhf,khf->hqk", q, k) * spec.attention_scale, spec.score_cap)
    query, key = np.arange(tokens)[:, None], np.arange(tokens)
    visible = key <= query
    if layer.window is not None:
        visible &= key > query - layer.window
    if layer.chunk is not None:
        visible &= key >= query // layer.chunk * layer.chunk
    weights = np.where(visible, np.exp(scores), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    if spec.sinks:
        total = total + np.exp(w("sinks"))[:, None, None]
    mixed = np.einsum("hqk,khf->qhf", weights / total, v)
    report("attention", mixed)
    if spec.attention_gate:
        mixed = mixed / (1 + np.exp(-_linear(w, "q_gate", x, bias=spec.qkv_bias).reshape(mixed.shape)))
    return _linear(w, "o", mixed.reshape(tokens, -1), bias=spec.output_bias)


def _linear_attention(spec: ModelSpec, w: Callable[[str], F64], x: F64, report: OnResult) -> F64:
    """Compute linear attention with the gated delta rule, token by token."""
    assert spec.linear is not None
    sizes, tokens = spec.linear, len(x)
    parts = {}
    for name in "qkv":
        taps = w(f"delta.conv_{name}")
        history = np.concatenate([np.zeros((sizes.taps - 1, len(taps))), x @ w(f"delta.{name}").T])
        mixed = sum(history[j : j + tokens] * taps[:, j] for j in range(sizes.taps))
        heads = sizes.value_heads if name == "v" else sizes.key_heads
        parts[name] = activated("silu", mixed).reshape(tokens, heads, -1)
    q, k = (np.repeat(parts[name], sizes.values_per_key, axis=1) for name in "qk")
    q, k = (part / np.sqrt((part * part).sum(axis=-1, keepdims=True) + 1e-6) for part in (q, k))
    strength = sizes.max_strength / (1 + np.exp(-x @ w("delta.b").T))
    decay = np.exp(-np.exp(w("delta.log_rate")) * np.log1p(np.exp(x @ w("delta.a").T + w("delta.decay_bias"))))
    state, out = np.zeros((sizes.value_heads, sizes.key_size, sizes.value_size)), np.zeros_like(parts["v"])
    for t in range(tokens):
        state = state * decay[t][:, None, None]
        change = strength[t][:, None] * (parts["v"][t] - np.einsum("hk,hkv->hv", k[t], state))
        state = state + k[t][:, :, None] * change[:, None]
        out[t] = np.einsum("hk,hkv->hv", q[t], state) / math.sqrt(sizes.key_size)
    gate = activated("silu", x @ w("delta.z").T).reshape(out.shape)
    eps = spec.norm_eps if sizes.norm_eps is None else sizes.norm_eps
    normed = _rms(out, eps) * w("delta.norm") * gate
    report("delta_norm", normed)
    return np.asarray(normed.reshape(tokens, -1) @ w("delta.o").T)


def _feed_forward(
    spec: ModelSpec,
    w: Callable[[str], F64],
    x: F64,
    report: OnResult = lambda name, values: None,
    name: str = "gate_up",
) -> F64:
    up = _linear(w, "up", x, bias=spec.ffn_bias)
    gate = _linear(w, "gate", x, bias=spec.ffn_bias) if spec.gated else up
    hidden = activated(spec.activation, gate, spec.activation_limit)
    if spec.gated:
        limit = spec.activation_limit
        hidden = hidden * (np.clip(up, -limit, limit) + 1 if spec.activation == "clamped_silu" else up)
    report(name, hidden)
    return _linear(w, "down", hidden, bias=spec.ffn_bias)


def _normed_blocks(source: F64, spec: ModelSpec, w: Callable[[str], F64], shared_input: F64, report: OnResult) -> F64:
    """Return the sum of experts and shared expert, each with norms of its own; ``source`` is the residual stream."""
    assert spec.experts is not None
    expert_input = _norm(spec, w, "expert_norm", source)
    report("expert_norm", expert_input)
    router_input = _norm(spec, w, "router_norm", source) / math.sqrt(spec.hidden_size)
    report("router_norm", router_input)
    routed = _routed(spec, w, expert_input, router_input, report)
    report("experts_down", routed)
    shared = _feed_forward(spec, lambda name: w(f"shared.{name}"), shared_input, report, "shared_gate_up")
    report("shared_down", shared)
    return _norm(spec, w, "expert_post_norm", routed) + _norm(spec, w, "shared_post_norm", shared)


def _mixture(spec: ModelSpec, w: Callable[[str], F64], x: F64, report: OnResult) -> F64:
    total = np.zeros_like(x)
    if spec.experts.shared_size:
        gate = 1 / (1 + np.exp(-x @ w("shared.scale").T)) if spec.experts.shared_gate else 1.0
        total += gate * _feed_forward(spec, lambda name: w(f"shared.{name}"), x, report, "shared_gate_up")
    return total + _routed(spec, w, x, x, report)


def _routed(spec: ModelSpec, w: Callable[[str], F64], x: F64, router_input: F64, report: OnResult) -> F64:
    """Return the sum of the selected experts' outputs for x ``[tokens, hidden]``."""
    total = np.zeros_like(x)
    routed = routes(spec.experts, w, router_input)
    report("router", np.array([(ids, weights) for ids, weights in routed]))
    for token, (ids, weights) in enumerate(routed):
        for expert, weight in zip(ids, weights, strict=True):
            expert_tensors = one_expert(spec.experts, w, expert)
            before, after = (weight, 1.0) if spec.experts.weighs_input else (1.0, weight)
            total[token] += after * _feed_forward(spec, expert_tensors, before * x[token])
    return total


def activated(activation: str, x: F64, limit: float = 0.0) -> F64:
    """Apply the activation function called ``activation``, without the multiplication of gated blocks."""
    match activation:
        case "silu":
            return np.asarray(x / (1 + np.exp(-x)))
        case "clamped_silu":
            capped = np.minimum(x, limit)
            return np.asarray(capped / (1 + np.exp(-1.702 * capped)))
        case "gelu_tanh":
            return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
        case "relu" | "relu2":
            return np.maximum(x, 0.0) ** (1 if activation == "relu" else 2)
        case "gelu":
            return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))
    raise ValueError(activation)
