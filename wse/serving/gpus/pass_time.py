"""The time of a pass, term by term: a roofline divided by the ratios that a stack achieves, plus fixed costs.

    reads         weights / bandwidth_ratio + experts / expert_ratio + cache / cache_ratio
                  + layers x tokens of the longest cache x cache_token_s
    products      linear layers / compute_ratio + attention
    launch        layers x layer_s + layers with experts x expert_layer_s
    all-reduces   two per layer: all_reduce_s x log2(GPUs), plus the vectors over the links
    host          step_s + users x user_s

Reads and products are added, because the products of a few tokens wait for their weights. The attention scores of one
new token per user fill little of a tensor core's tile, so they have their own ratio (``attention_ratio``).

An all-reduce of a short vector takes one step, in which each GPU reads the vectors of the g - 1 others (one-shot). A
longer vector takes two steps, which move 2 (g - 1) / g vectors: Thakur et al., Optimization of collective
communication operations in MPICH, 2005. Two steps cost at least as much as the longest one-shot all-reduce, so that
the time of a pass is continuous and never falls with users, with context or with the tokens of a prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wse.models.spec import ModelSpec
from wse.serving.gpus.roofline import Parallelism, Roofline
from wse.serving.gpus.spec import GpuSpec, StackSpec

ALL_REDUCES_PER_LAYER = 2
"""All-reduces per layer with tensor parallelism: after attention and after the feed-forward block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Seconds of a pass by term; ``crossing_s`` is that of the vectors on the links, beside the wait for the others."""

    weights_s: float
    cache_s: float
    compute_s: float
    launch_s: float
    all_reduce_s: float
    crossing_s: float
    host_s: float

    @property
    def total_s(self) -> float:
        """All terms."""
        return math.fsum(getattr(self, name) for name in PassTime.__dataclass_fields__)

    def plus(self, other: PassTime, times: float = 1.0) -> PassTime:
        """This time and so many times another, term by term."""
        return PassTime(
            **{name: getattr(self, name) + times * getattr(other, name) for name in PassTime.__dataclass_fields__}
        )


def pass_time(
    roofline: Roofline, spec: ModelSpec, gpu: GpuSpec, parallelism: Parallelism, stack: StackSpec
) -> PassTime:
    """Return the time of a pass of a model on GPUs that a stack serves."""
    reads = (roofline.weights_s - roofline.four_bit_s) / stack.bandwidth_ratio
    reads += roofline.four_bit_s / stack.four_bit_ratio + roofline.experts_s / stack.expert_ratio
    products = (roofline.products_s + roofline.rows_s) / stack.compute_ratio + roofline.row_s / stack.attention_ratio
    expert_layers = sum(layer.experts for layer in spec.layers)
    wait, crossing = _all_reduce(roofline.vector_bytes, gpu, parallelism, stack)
    all_reduces = spec.layer_count * (1 if parallelism.attention_by_data else ALL_REDUCES_PER_LAYER)
    return PassTime(
        weights_s=reads,
        cache_s=roofline.cache_s / stack.cache_ratio + roofline.cache_steps * stack.cache_token_s,
        compute_s=products,
        launch_s=spec.layer_count * stack.layer_s + expert_layers * stack.expert_layer_s,
        all_reduce_s=all_reduces * wait,
        crossing_s=all_reduces * crossing,
        host_s=stack.step_s + roofline.users * stack.user_s,
    )


def _all_reduce(vector_bytes: float, gpu: GpuSpec, parallelism: Parallelism, stack: StackSpec) -> tuple[float, float]:
    """Return the seconds of one all-reduce: waiting for the other GPUs, and moving bytes.

    With attention by data, an all-gather of the users' vectors and a reduce-scatter of the sums take its place.
    """
    gpus = parallelism.gpus
    if gpus == 1:
        return 0.0, 0.0
    moved_bytes = 2 * (gpus - 1) / gpus * vector_bytes
    if not parallelism.attention_by_data:
        moved_bytes = max(moved_bytes, (gpus - 1) * min(vector_bytes, stack.one_shot_bytes))
    return stack.all_reduce_s * math.log2(gpus), moved_bytes / gpu.link_bytes_per_s / stack.link_ratio
