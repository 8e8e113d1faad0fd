"""The roofline of a pass: the seconds that its bytes and products take on one GPU at the rates that are stated for it.

A pass runs new tokens of some users through the model: one of each user when decoding, the prompt or a chunk of it, the
tokens to be verified, or decoded tokens and a prompt together. Weights are read once a pass, whoever it is for. Of a
mixture with n experts, k for a token, T tokens touch n (1 - (1 - k/n)^T) of a layer in the mean. A token reads the
cache of its user as far back as the layer sees: a window less than all; with latent attention one vector for all heads.

Over g GPUs linear layers and heads are cut into g parts (tensor parallelism; Megatron-LM, arXiv 1909.08053): the cache
into as many as it has heads of keys, and is whole on each where there is one, as with latent attention. With attention
by data each GPU has its own users, their whole cache and all weights of attention (DeepSeek-V3, arXiv 2412.19437).
Experts that are whole on a GPU each (expert parallelism) are touched unevenly: the GPU with the most sets the pace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wse.models.spec import ModelSpec
from wse.serving.gpus.spec import GpuSpec
from wse.serving.gpus.weights import (
    PLAIN_BITS,
    LayerKind,
    WeightFormat,
    layer_kinds,
    plain_bytes_per_value,
    table_bytes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """New tokens of a pass: so many ``new`` ones of each of ``users``, with ``context`` tokens before the first.

    ``outputs`` of each user get logits: the last, or all that are verified.
    """

    users: float
    new: int
    context: float
    outputs: int = 1

    @property
    def count(self) -> float:
        """Tokens of all users."""
        return self.users * self.new


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """GPUs that hold a model together. ``attention_by_data``, ``whole_experts``: see the module."""

    gpus: int = 1
    attention_by_data: bool = False
    whole_experts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A pass at stated rates, on the GPU with the most to do.

    Attributes:
        weights_s: Reading weights but those of routed experts.
        four_bit_s: Of these the ones of 4 bits that are multiplied as such.
        experts_s: Reading the experts that are touched.
        cache_s: Reading the KV cache.
        products_s: Products of linear layers and the head.
        row_s: Scores and values of the first new token of each user.
        rows_s: Scores and values of their further tokens.
        vector_bytes: A hidden vector of every token: what an all-reduce adds up.
        users: Users of the pass.
        cache_steps: Tokens of the longest cache that attention steps through one by one, summed over all layers. A
            group of less than one user counts in proportion to its users.
    """

    weights_s: float
    four_bit_s: float
    experts_s: float
    cache_s: float
    products_s: float
    row_s: float
    rows_s: float
    vector_bytes: float
    users: float
    cache_steps: float

    @property
    def bound_s(self) -> float:
        """The least time: that of all reads, or of all products where it is longer."""
        reads = self.weights_s + self.experts_s + self.cache_s
        return max(reads, self.products_s + self.row_s + self.rows_s)


class RooflineModel:
    """Rooflines of a model's passes on GPUs."""

    def __init__(self, spec: ModelSpec, weights: WeightFormat, gpu: GpuSpec, parallelism: Parallelism) -> None:
        self.spec, self.weights, self.gpu, self.parallelism = spec, weights, gpu, parallelism
        self.kinds = layer_kinds(spec)
        self._plain_bytes = plain_bytes_per_value(spec, weights)
        self._plain_rate = gpu.bf16_flops_per_s if self._plain_bytes > 1 else gpu.flops_per_s(weights.product_bits)
        self._token_flops = _attention_flops(spec)

    def of(self, groups: Sequence[Tokens]) -> Roofline:
        """Return the roofline of a pass over some groups of tokens."""
        gpus, bandwidth = self.parallelism.gpus, self.gpu.hbm_bytes_per_s
        count, users = sum(g.count for g in groups), sum(g.users for g in groups)
        attention_share = 1 if self.parallelism.attention_by_data else 1 / gpus
        weights = experts = products = cache = row = rows = 0.0
        for kind in self.kinds:
            weights += kind.count * (kind.attention * attention_share + kind.block / gpus) * self._plain_bytes
            products += kind.count * 2 * count * (kind.attention + kind.block) / gpus / self._plain_rate
            if kind.expert:
                touched, active = self._touched(count)
                experts += kind.count * kind.expert * touched * self.weights.bits / 8
                rate = self.gpu.flops_per_s(self.weights.product_bits)
                products += kind.count * 2 * count * active * kind.expert / gpus / rate
            for group in groups:
                read, first, further = self._attention(kind, group)
                cache, row, rows = cache + read, row + first, rows + further
        head = table_bytes(self.spec) / gpus
        outputs = sum(g.users * g.outputs for g in groups)
        products += 2 * outputs * self.spec.vocab_size * self.spec.hidden_size / gpus / self.gpu.bf16_flops_per_s
        is_four_bit = self._plain_bytes < 1 and self.gpu.fp4_flops_per_s > 0
        return Roofline(
            weights_s=(weights + head) / bandwidth,
            four_bit_s=weights / bandwidth if is_four_bit else 0.0,
            experts_s=experts / bandwidth,
            cache_s=cache / bandwidth,
            products_s=products,
            row_s=row,
            rows_s=rows,
            vector_bytes=count * self.spec.hidden_size * PLAIN_BITS / 8,
            users=users,
            cache_steps=max(min(1.0, group.users) * self._steps(group) for group in groups),
        )

    def _steps(self, group: Tokens) -> float:
        """Return the tokens of a user's cache, over all layers."""
        return sum(kind.count * min(group.context, kind.span or group.context) for kind in self.kinds)

    def _touched(self, count: float) -> tuple[float, int]:
        """Experts of a layer that a GPU reads for so many tokens, in parts of an expert where these are cut; k."""
        experts = self.spec.experts
        assert experts is not None  # a layer has some
        probability = 1 - (1 - experts.active / experts.count) ** count
        own = experts.count / self.parallelism.gpus
        mean = own * probability
        if not self.parallelism.whole_experts or self.parallelism.gpus == 1:
            return mean, experts.active
        spread = math.sqrt(2 * math.log(self.parallelism.gpus) * own * probability * (1 - probability))
        return min(own, mean + spread), experts.active

    def _attention(self, kind: LayerKind, group: Tokens) -> tuple[float, float, float]:
        """Return what attention of a group costs in all layers of a kind.

        Returns:
            Bytes of the cache that are read, and seconds of the products of each user's first and further tokens.
        """
        seen = group.context + (group.new - 1) / 2  # of the tokens before, on average
        span = min(seen, kind.span) if kind.span else seen
        reach = min(group.context, kind.span) if kind.span else group.context
        parts = (
            self.parallelism.gpus
            if self.parallelism.attention_by_data
            else min(self.parallelism.gpus, self.spec.kv_head_count)
        )
        entry = self.spec.cache_features * self.weights.cache_bits / 8
        token_s = span * self._token_flops / self.parallelism.gpus / self.gpu.bf16_flops_per_s
        return (
            kind.count * group.users * reach * entry / parts,
            kind.count * group.users * token_s,
            kind.count * group.users * (group.new - 1) * token_s,
        )


def _attention_flops(spec: ModelSpec) -> int:
    """Operations of one layer's scores and values for a token and one token before it.

    With latent attention queries are multiplied with the latent vectors themselves (DeepSeek-V2, arXiv 2405.04434).
    """
    if spec.latent is None:
        return 4 * spec.head_count * spec.head_size
    return 2 * spec.head_count * (2 * spec.latent.kv_rank + spec.latent.rope_size)
