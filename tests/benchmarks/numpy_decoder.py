"""A plain numpy float32 decoder of Llama models: what the emulation's speed is compared with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import Checkpoint

F32 = npt.NDArray[np.float32]


class NumpyDecoder:
    """One token at a time, whole matrices, a growing cache."""

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint, context: int) -> None:
        self.spec, self.length = spec, 0
        self.w = {name: np.asarray(checkpoint.tensor(name), np.float32) for name in checkpoint.names}
        shape = (spec.layer_count, context, spec.kv_head_count, spec.head_size)
        self.k, self.v = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        assert spec.rope is not None
        self.frequency = np.array(spec.rope.frequencies, np.float32)

    def step(self, token: int) -> F32:
        """Logits [vocabulary] after ``token``."""
        x = self.w["embedding"][token]
        for layer in range(self.spec.layer_count):
            x = x + self._attention(layer, self._norm(x, f"layers.{layer}.attention_norm"))
            normed = self._norm(x, f"layers.{layer}.mlp_norm")
            gate = self.w[f"layers.{layer}.gate"] @ normed
            hidden = gate / (1.0 + np.exp(-gate)) * (self.w[f"layers.{layer}.up"] @ normed)
            x = x + self.w[f"layers.{layer}.down"] @ hidden
        self.length += 1
        head = self.w["embedding" if self.spec.tied_embedding else "head"]
        return np.asarray(head @ self._norm(x, "final_norm"), np.float32)

    def _norm(self, x: F32, gain: str) -> F32:
        return np.asarray(x / np.sqrt((x * x).mean() + np.float32(self.spec.norm_eps)) * self.w[gain], np.float32)

    def _rotate(self, x: F32) -> F32:
        angle = self.frequency * np.float32(self.length)
        first, second = np.split(x, 2, axis=-1)
        turned = (first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle))
        return np.concatenate(turned, axis=-1)

    def _attention(self, layer: int, x: F32) -> F32:
        s, now = self.spec, self.length
        q = self._rotate((self.w[f"layers.{layer}.q"] @ x).reshape(s.head_count, s.head_size))
        self.k[layer, now] = self._rotate((self.w[f"layers.{layer}.k"] @ x).reshape(s.kv_head_count, s.head_size))
        self.v[layer, now] = (self.w[f"layers.{layer}.v"] @ x).reshape(s.kv_head_count, s.head_size)
        grouped = q.reshape(s.kv_head_count, s.queries_per_kv, s.head_size)
        keys, values = self.k[layer, : now + 1], self.v[layer, : now + 1]
        scores = np.einsum("hrd,thd->hrt", grouped, keys) / np.float32(np.sqrt(s.head_size))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hrt,thd->hrd", weights, values).reshape(-1)
        return np.asarray(self.w[f"layers.{layer}.o"] @ mixed, np.float32)
