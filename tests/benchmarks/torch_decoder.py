"""A plain Llama decoder in torch (float32, on the CPU), with which the emulation is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.benchmarks.numpy_decoder import F32
from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import Checkpoint


class TorchDecoder:
    """A Llama decoder for one sequence, with a KV cache in tensors and torch's fused attention.

    Attributes:
        torch: The torch module.
        spec: The model.
        length: Number of tokens in the KV cache.
        w: Float32 tensors by name.
        k, v: The KV cache, [layers, kv heads, context, head size] each.
        frequency: Rotary frequencies, in radians per position.
    """

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint, context: int) -> None:
        import torch

        self.torch: Any = torch
        self.spec, self.length = spec, 0
        self.w = {name: torch.from_numpy(np.array(checkpoint.tensor(name), np.float32)) for name in checkpoint.names}
        shape = (spec.layer_count, spec.kv_head_count, context, spec.head_size)
        self.k, self.v = torch.zeros(shape), torch.zeros(shape)
        self.frequency = torch.tensor(spec.rope.frequencies)

    def step(self, token: int) -> F32:
        """Append a token to the sequence and return the logits after it, [vocabulary]."""
        return self.read([token])

    def read(self, tokens: Sequence[int]) -> F32:
        """Append tokens to the sequence in one pass, and return the logits after the last one.

        Returns:
            Float32 [vocabulary].
        """
        functional = self.torch.nn.functional
        with self.torch.inference_mode():
            x = self.w["embedding"][list(tokens)]
            for layer in range(self.spec.layer_count):
                x = x + self._attention(layer, self._norm(x, f"layers.{layer}.attention_norm"))
                normed = self._norm(x, f"layers.{layer}.mlp_norm")
                gate, up = (functional.linear(normed, self.w[f"layers.{layer}.{name}"]) for name in ("gate", "up"))
                x = x + functional.linear(functional.silu(gate) * up, self.w[f"layers.{layer}.down"])
            self.length += len(tokens)
            head = self.w["embedding" if self.spec.tied_embedding else "head"]
            return np.asarray(functional.linear(self._norm(x[-1], "final_norm"), head))

    def _norm(self, x: Any, gain: str) -> Any:
        return self.torch.nn.functional.rms_norm(x, (x.shape[-1],), self.w[gain], self.spec.norm_eps)

    def _rotate(self, x: Any) -> Any:
        """Apply rotary embeddings to new tokens, [heads, tokens, features]."""
        angle = self.torch.arange(self.length, self.length + x.shape[1])[:, None] * self.frequency
        first, second = x.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return self.torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    def _attention(self, layer: int, x: Any) -> Any:
        spec, first, end, functional = self.spec, self.length, self.length + len(x), self.torch.nn.functional
        q, k, v = (
            functional.linear(x, self.w[f"layers.{layer}.{name}"]).view(len(x), -1, spec.head_size).transpose(0, 1)
            for name in ("q", "k", "v")
        )
        self.k[layer, :, first:end], self.v[layer, :, first:end] = self._rotate(k), v
        keys, values = self.k[layer, :, :end], self.v[layer, :, :end]
        seen = self.torch.arange(end) <= self.torch.arange(first, end)[:, None]
        mixed = functional.scaled_dot_product_attention(
            self._rotate(q)[None], keys[None], values[None], attn_mask=seen, enable_gqa=True
        )
        return functional.linear(mixed[0].transpose(0, 1).reshape(len(x), -1), self.w[f"layers.{layer}.o"])
