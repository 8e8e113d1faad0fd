"""Multi-head latent attention in plain numpy float64, keys and values expanded for every head: an oracle.

The equations of DeepSeek-V2 (arXiv 2405.04434, section 2.1, numbers (37) to (47)).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wse.models.spec import ModelSpec

F64 = npt.NDArray[np.float64]


def latent_attention(spec: ModelSpec, w: Callable[[str], F64], rotated: Callable[[F64], F64], x: F64) -> F64:
    """x ``[tokens, hidden]`` to what the block adds to it. ``rotated`` turns ``[tokens, heads, rope size]``."""
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
