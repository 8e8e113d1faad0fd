"""The time of a pass on GPUs: a roofline divided by achieved ratios, plus fixed costs.

    reads         weights / bandwidth_ratio + experts / expert_ratio + cache / cache_ratio
                  + layers x tokens of the longest cache x cache_token_s
    products      linear layers / compute_ratio + attention
    launch        layers x layer_s + layers with experts x expert_layer_s
    all-reduces   two per layer: all_reduce_s x log2(GPUs), plus the vectors over the links
    host          step_s + users x user_s

Reads and products are added, because the products of a few tokens wait for their weights. The
attention scores of one new token per user fill little of a tensor core's tile, so they have their
own ratio (``attention_ratio``).

An all-reduce of a short vector takes one step, in which each of g GPUs reads the vectors of the g -
1 others (one-shot). A longer vector takes two steps, which move 2 (g - 1) / g vectors: Thakur et
al., Optimization of collective communication operations in MPICH, 2005. Two steps are assumed to
cost at least as much as the longest one-shot all-reduce. The time of a pass is therefore continuous
and never falls with users, context, or tokens of a prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wse.models.spec import ModelSpec
from wse.serving.gpus.roofline import Parallelism, Roofline
from wse.serving.gpus.spec import GpuSpec, StackSpec

ALL_REDUCES_PER_LAYER = 2
"""All-reduces per layer in tensor parallelism: after attention and after the feed-forward block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Duration of one model pass on GPUs, as a sum of terms in seconds.

    Attributes:
        weights_s: Time to read the weights.
        cache_s: Time to read the KV cache.
        compute_s: Time for matrix products.
        launch_s: Time to launch and synchronise kernels.
        all_reduce_s: Time spent waiting for the other GPUs in all-reduces.
        crossing_s: Time to move vectors over the links in all-reduces.
        host_s: Time for the host's work.
    """

    weights_s: float
    cache_s: float
    compute_s: float
    launch_s: float
    all_reduce_s: float
    crossing_s: float
    host_s: float

    @property
    def total_s(self) -> float:
        """Duration of the pass in seconds: the sum of all terms."""
        return math.fsum(getattr(self, name) for name in PassTime.__dataclass_fields__)

    def plus(self, other_time: PassTime, times: float = 1.0) -> PassTime:
        """Add another pass time, multiplied by ``times``, to this one; all terms are added separately."""
        return PassTime(
            **{name: getattr(self, name) + times * getattr(other_time, name) for name in PassTime.__dataclass_fields__}
        )


def pass_time(
    roofline: Roofline, spec: ModelSpec, gpu: GpuSpec, parallelism: Parallelism, stack: StackSpec
) -> PassTime:
    """Return the duration of a model pass on GPUs with a serving stack.

    The roofline's minimum times are divided by the stack's efficiencies, and the stack's fixed
    times are added.

    Args:
        roofline: Minimum times of the parts of the pass, at the vendor's stated rates.
        spec: Specification of the model.
        gpu: Capacities and rates of the GPU.
        parallelism: How the model is distributed across GPUs.
        stack: Costs of the serving stack.
    """
    reads = (roofline.weights_s - roofline.four_bit_s) / stack.bandwidth_ratio
    reads += roofline.four_bit_s / stack.four_bit_ratio + roofline.experts_s / stack.expert_ratio
    products = (roofline.products_s + roofline.rows_s) / stack.compute_ratio + roofline.row_s / stack.attention_ratio
    expert_layers = sum(layer.experts for layer in spec.layers)
    wait_s, crossing_s = _all_reduce(roofline.vector_bytes, gpu, parallelism, stack)
    all_reduces = spec.layer_count * (1 if parallelism.attention_by_data else ALL_REDUCES_PER_LAYER)
    return PassTime(
        weights_s=reads,
        cache_s=roofline.cache_s / stack.cache_ratio + roofline.cache_steps * stack.cache_token_s,
        compute_s=products,
        launch_s=spec.layer_count * stack.layer_s + expert_layers * stack.expert_layer_s,
        all_reduce_s=all_reduces * wait_s,
        crossing_s=all_reduces * crossing_s,
        host_s=stack.step_s + roofline.users * stack.user_s,
    )


def _all_reduce(vector_bytes: float, gpu: GpuSpec, parallelism: Parallelism, stack: StackSpec) -> tuple[float, float]:
    """Return the time of one all-reduce in seconds: waiting for other GPUs, then moving bytes.

    With data-parallel attention, an all-gather of the users' vectors and a reduce-scatter of the
    sums replace the all-reduce.

    Args:
        vector_bytes: Total size of all tokens' vectors in bytes.
        gpu: Capacities and rates of the GPU.
        parallelism: How the model is distributed across GPUs.
        stack: Costs of the serving stack.
    """
    gpus = parallelism.gpus
    if gpus == 1:
        return 0.0, 0.0
    moved_bytes = 2 * (gpus - 1) / gpus * vector_bytes
    if not parallelism.attention_by_data:
        moved_bytes = max(moved_bytes, (gpus - 1) * min(vector_bytes, stack.one_shot_bytes))
    return stack.all_reduce_s * math.log2(gpus), moved_bytes / gpu.link_bytes_per_s / stack.link_ratio
