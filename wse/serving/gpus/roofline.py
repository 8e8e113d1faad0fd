"""The roofline of a pass: the seconds of its reads and products at the stated rates of a GPU.

A pass runs new tokens of some users through the model: one token of each user (decode), a prompt or
a chunk of it, draft tokens to verify, or decoded tokens together with a prompt.

Weights are read once per pass. In a mixture with n experts, of which each token uses k, T tokens
use n (1 - (1 - k/n)^T) experts of a layer on average, unless another distribution is given. Each
token reads the KV cache of its user as far back as the layer attends. With latent attention, the
cache has one vector for all heads. With linear attention, each pass reads and writes the state of
each user.

On g GPUs, linear layers and heads are divided into g parts (tensor parallelism; Megatron-LM, arXiv
1909.08053). The cache is divided into as many parts as there are KV heads. With one KV head, as
with latent attention, each GPU stores the whole cache. With data-parallel attention, each GPU has
its own users, their whole cache, and all weights of attention (DeepSeek-V3, arXiv 2412.19437). With
expert parallelism, each expert is stored entirely on one GPU. The experts in use are then
distributed unevenly, and the GPU with the most experts in use determines the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wse.models.spec import ModelSpec
from wse.program.routing import EVEN, RoutingDistribution
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
    """A group of users with the same number of new tokens in a pass.

    Attributes:
        users: Number of users.
        new: New tokens per user.
        context: Tokens per user before the first new token.
        outputs: Tokens per user for which logits are computed: the last token, or all verified
            tokens.
    """

    users: float
    new: int
    context: float
    outputs: int = 1

    @property
    def count(self) -> float:
        """Number of new tokens of all users."""
        return self.users * self.new


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """Distribution of a model across GPUs.

    By default, every matrix is divided among all GPUs (tensor parallelism).

    Attributes:
        gpus: Number of GPUs.
        attention_by_data: Whether attention is data-parallel: each GPU computes the attention of
            its own users.
        whole_experts: Whether each expert is stored entirely on one GPU (expert parallelism).
    """

    gpus: int = 1
    attention_by_data: bool = False
    whole_experts: bool = False

    def cache_parts(self, heads: int) -> int:
        """Return among how many GPUs the caches or states of all users are divided.

        GPUs beyond this number store copies.

        Args:
            heads: Number of heads in the cache or state of one user, which are not divided.
        """
        return self.gpus if self.attention_by_data else min(self.gpus, heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Minimum times of the parts of a pass in seconds, at the GPU vendor's stated rates.

    The times apply to the GPU with the most work.

    Attributes:
        weights_s: Time to read all weights except routed experts.
        four_bit_s: Part of ``weights_s`` for weights that tensor cores multiply in 4 bits.
        experts_s: Time to read the routed experts that are used.
        cache_s: Time to read the KV cache.
        products_s: Time for the products of linear layers and the head.
        row_s: Attention time of each user's first new token: scores and weighted sums of values.
        rows_s: Attention time of the remaining new tokens.
        vector_bytes: Size of all tokens' hidden vectors in bytes, which an all-reduce adds up.
        users: Number of users in the pass.
        cache_steps: Tokens that attention reads one by one from the longest cache, summed over all
            layers. A group of less than one user counts in proportion.
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
        """Minimum duration in seconds: the longer of the total read time and the product time."""
        reads = self.weights_s + self.experts_s + self.cache_s
        return max(reads, self.products_s + self.row_s + self.rows_s)


class RooflineModel:
    """Cost model for passes of one language model on given GPUs.

    It computes minimum times (rooflines) from the bytes that a pass reads and its operations.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: WeightFormat,
        gpu: GpuSpec,
        parallelism: Parallelism,
        routing: RoutingDistribution = EVEN,
    ) -> None:
        """Prepare the computation of rooflines.

        Args:
            spec: Specification of the model.
            weights: Number format of the weights.
            gpu: Capacities and rates of the GPU.
            parallelism: How the model is distributed over GPUs.
            routing: How tokens select experts; with `EVEN`, independently and uniformly.
        """
        self.spec, self.weights, self.gpu, self.parallelism = spec, weights, gpu, parallelism
        self._routing = routing
        self.kinds = layer_kinds(spec)
        self._plain_bytes = plain_bytes_per_value(spec, weights)
        self._plain_rate = gpu.bf16_flops_per_s if self._plain_bytes > 1 else gpu.flops_per_s(weights.product_bits)
        self._windowed_spec = spec.with_window_heads

    def of(self, groups: Sequence[Tokens]) -> Roofline:
        """Return the minimum times of a pass at the GPU vendor's stated rates.

        Args:
            groups: Groups of users in the pass. The users in a group have equally many new tokens.
        """
        gpus, bandwidth = self.parallelism.gpus, self.gpu.hbm_bytes_per_s
        count, users = sum(g.count for g in groups), sum(g.users for g in groups)
        attention_fraction = 1 if self.parallelism.attention_by_data else 1 / gpus
        weights = experts = products = cache = row = rows = 0.0
        for kind in self.kinds:
            weights += kind.count * (kind.attention * attention_fraction + kind.block / gpus) * self._plain_bytes
            products += kind.count * 2 * count * (kind.attention + kind.block) / gpus / self._plain_rate
            if kind.expert:
                used_experts, active = self._used_experts(count)
                experts += kind.count * kind.expert * used_experts * self.weights.bits / 8
                rate = self.gpu.flops_per_s(self.weights.product_bits)
                products += kind.count * 2 * count * active * kind.expert / gpus / rate
            for group in groups:
                read_bytes, first_s, further_s = self._attention(kind, group)
                cache, row, rows = cache + read_bytes, row + first_s, rows + further_s
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
        """Return how many cached tokens attention reads for one user, summed over all layers."""
        kinds = [kind for kind in self.kinds if not kind.linear]
        return sum(kind.count * min(group.context, kind.span or group.context) for kind in kinds)

    def _used_experts(self, count: float) -> tuple[float, int]:
        """Return how many experts of a layer a GPU reads, and how many experts each token uses.

        The first number is an expected value and may be a fraction. If each expert is stored
        entirely on one GPU, it is an estimate for the GPU with the most experts in use.

        Args:
            count: Number of new tokens in the pass.
        """
        experts = self.spec.experts
        assert experts is not None  # a layer has some
        experts_per_gpu = experts.count / self.parallelism.gpus
        if not self._routing.is_even:
            return self._used_experts_of_routing(count), experts.active
        probability = 1 - (1 - experts.active / experts.count) ** count
        mean = experts_per_gpu * probability
        if not self.parallelism.whole_experts or self.parallelism.gpus == 1:
            return mean, experts.active
        excess = math.sqrt(2 * math.log(self.parallelism.gpus) * experts_per_gpu * probability * (1 - probability))
        return min(experts_per_gpu, mean + excess), experts.active

    def _used_experts_of_routing(self, count: float) -> float:
        """Return how many experts of a layer a GPU reads if they are not selected uniformly.

        The result is an expected value, averaged over all layers. If each expert is stored entirely
        on one GPU, every GPU stores consecutive experts, and the result is for the GPU with the
        most experts in use. It is estimated as the larger of two numbers:

        - the largest expected number on a GPU
        - the mean expected number on a GPU plus the expected excess of the maximum over the GPUs
          due to chance, limited to the number of experts that a GPU stores

        Args:
            count: Number of new tokens in the pass.
        """
        used_fractions, gpus = 1 - self._routing.unused_fractions(count), self.parallelism.gpus
        if not self.parallelism.whole_experts:
            return float(used_fractions.sum(axis=1).mean()) / gpus
        by_gpu = [part.sum(axis=1) for part in np.array_split(used_fractions, gpus, axis=1)]
        variance = (used_fractions * (1 - used_fractions)).sum(axis=1) / gpus
        excess = np.sqrt(2 * math.log(gpus) * variance)
        busiest_by_chance = np.minimum(used_fractions.shape[1] / gpus, np.mean(by_gpu, axis=0) + excess)
        return float(np.maximum(np.max(by_gpu, axis=0), busiest_by_chance).mean())

    def _attention(self, kind: LayerKind, group: Tokens) -> tuple[float, float, float]:
        """Return the costs of attention for one group of users, summed over the layers of a kind.

        Returns:
            Bytes read from the KV cache, or read and written in the states; seconds for the
            products of each user's first new token; seconds for the products of the users'
            remaining new tokens.
        """
        if kind.linear:
            return self._linear_attention(kind, group)
        mean_context = group.context + (group.new - 1) / 2
        span = min(mean_context, kind.span) if kind.span else mean_context
        reach = min(group.context, kind.span) if kind.span else group.context
        spec = self._windowed_spec if kind.windowed else self.spec
        parts = self.parallelism.cache_parts(spec.kv_head_count)
        entry = spec.cache_features * self.weights.cache_bits / 8
        token_s = span * _attention_flops(spec) / self.parallelism.gpus / self.gpu.bf16_flops_per_s
        return (
            kind.count * group.users * reach * entry / parts,
            kind.count * group.users * token_s,
            kind.count * group.users * (group.new - 1) * token_s,
        )

    def _linear_attention(self, kind: LayerKind, group: Tokens) -> tuple[float, float, float]:
        """Return the costs of linear attention for one group of users, in the layers of a kind.

        A pass reads and writes the state of each user once. Each new token multiplies the state by
        its key and its query, and adds an outer product (Yang et al., arXiv 2412.06464, eq. 10).

        Returns:
            The same as `_attention`.
        """
        linear = self.spec.linear
        assert linear is not None  # a layer has it
        parts = self.parallelism.cache_parts(linear.key_heads)
        token_s = 6 * linear.state_elements / self.parallelism.gpus / self.gpu.bf16_flops_per_s
        return (
            kind.count * group.users * 2 * linear.user_bytes(PLAIN_BITS // 8) / parts,
            kind.count * group.users * token_s,
            kind.count * group.users * (group.new - 1) * token_s,
        )


def _attention_flops(spec: ModelSpec) -> int:
    """Return a layer's floating-point operations for one new token to attend to one cached token.

    With latent attention, queries are multiplied with the latent vectors themselves (DeepSeek-V2,
    arXiv 2405.04434).
    """
    if spec.latent is None:
        return 4 * spec.head_count * spec.head_size
    return 2 * spec.head_count * (2 * spec.latent.kv_rank + spec.latent.rope_size)
