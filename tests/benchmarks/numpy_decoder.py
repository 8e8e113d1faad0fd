"""A plain Llama decoder in numpy (float32), with which the speed of the emulation is compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import Checkpoint

F32 = npt.NDArray[np.float32]


class NumpyDecoder:
    """A Llama decoder for one sequence, with a KV cache in numpy arrays.

    Attributes:
        spec: The model.
        length: Number of tokens in the KV cache.
        w: Float32 tensors by name.
        k, v: The KV cache, [layers, context, kv heads, head size] each.
        frequency: Rotary frequencies, in radians per position.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint, context: int) -> None:
        self.spec, self.length = spec, 0
        self.w = {name: np.asarray(checkpoint.tensor(name), np.float32) for name in checkpoint.names}
        shape = (spec.layer_count, context, spec.kv_head_count, spec.head_size)
        self.k, self.v = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.frequency = np.array(spec.rope.frequencies, np.float32)

    def step(self, token: int) -> F32:
        """Append a token to the sequence and return the logits after it, [vocabulary]."""
        return self.read([token])

    def read(self, tokens: Sequence[int]) -> F32:
        """Append tokens to the sequence in one pass, and return the logits after the last one.

        Returns:
            Float32 [vocabulary].
        """
        x = self.w["embedding"][list(tokens)]
        for layer in range(self.spec.layer_count):
            x = x + self._attention(layer, self._norm(x, f"layers.{layer}.attention_norm"))
            normed = self._norm(x, f"layers.{layer}.mlp_norm")
            gate = normed @ self.w[f"layers.{layer}.gate"].T
            hidden = gate / (1.0 + np.exp(-gate)) * (normed @ self.w[f"layers.{layer}.up"].T)
            x = x + hidden @ self.w[f"layers.{layer}.down"].T
        self.length += len(tokens)
        head = self.w["embedding" if self.spec.tied_embedding else "head"]
        return np.asarray(head @ self._norm(x[-1], "final_norm"), np.float32)

    def _norm(self, x: F32, gain: str) -> F32:
        mean_square = (x * x).mean(axis=-1, keepdims=True)
        return np.asarray(x / np.sqrt(mean_square + np.float32(self.spec.norm_eps)) * self.w[gain], np.float32)

    def _rotate(self, x: F32) -> F32:
        """Apply rotary embeddings to new tokens, [tokens, heads, features]."""
        angle = np.arange(self.length, self.length + len(x), dtype=np.float32)[:, None, None] * self.frequency
        first, second = np.split(x, 2, axis=-1)
        turned = (first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle))
        return np.concatenate(turned, axis=-1)

    def _attention(self, layer: int, x: F32) -> F32:
        s, first, end = self.spec, self.length, self.length + len(x)
        q = self._rotate((x @ self.w[f"layers.{layer}.q"].T).reshape(-1, s.head_count, s.head_size))
        own_shape = (-1, s.kv_head_count, s.head_size)
        self.k[layer, first:end] = self._rotate((x @ self.w[f"layers.{layer}.k"].T).reshape(own_shape))
        self.v[layer, first:end] = (x @ self.w[f"layers.{layer}.v"].T).reshape(own_shape)
        grouped = q.reshape(-1, s.kv_head_count, s.queries_per_kv, s.head_size)
        keys, values = self.k[layer, :end], self.v[layer, :end]
        scores = np.einsum("nhrd,thd->hrnt", grouped, keys, optimize=True) / np.float32(np.sqrt(s.head_size))
        if len(x) > 1:  # causal mask
            scores = np.where(np.arange(end) <= np.arange(first, end)[:, None], scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hrnt,thd->nhrd", weights, values, optimize=True).reshape(len(x), -1)
        return np.asarray(mixed @ self.w[f"layers.{layer}.o"].T, np.float32)
