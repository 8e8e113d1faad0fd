"""Bounds for a model whose weights are streamed to the wafers in every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import cache_bytes, coding_of, tensor_bytes, tensor_shapes
from wse.number_formats import ELEMENT_BYTES
from wse.program.routing import EVEN, RoutingDistribution
from wse.reports.number_text import in_bytes, plural, rate_and_latency, seconds
from wse.serving.cost import power_and_cost
from wse.serving.weight_streaming import StreamingBound, Weights, bytes_per_pass
from wse.studies.estimate.prepare import PreparedEstimate
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

STREAMED: Final = "streamed"
BATCHES: Final = (1, 8, 64, 512)
"""Numbers of users per pass, in addition to the number at which streaming breaks even."""
_BY_ROW: Final = ("embedding", "positions")
"""Tables from which each token reads a single row."""


def weights_of(spec: ModelSpec, dtype: str, activation_type: str, routing: RoutingDistribution = EVEN) -> Weights:
    """Count the bytes of weights that a decode pass must read, for routed experts and all others.

    Embedding tables are not counted, because a pass reads only one of their rows per token. A
    table that also serves as the output-head matrix is counted.

    Args:
        spec: The model.
        dtype: Element type of the weights of linear layers.
        activation_type: Element type of all other weights.
        routing: How tokens select experts.
    """
    float_bytes = ELEMENT_BYTES[activation_type]
    always_bytes = expert_bytes = 0
    for name, shape in tensor_shapes(spec).items():
        if name in _BY_ROW and not (name == "embedding" and spec.tied_embedding):
            continue
        tensor_size = tensor_bytes(shape, coding_of(spec, name, dtype), float_bytes)
        if ".experts." in name:
            expert_bytes += tensor_size
        else:
            always_bytes += tensor_size
    if spec.experts is None:
        return Weights(always_bytes=always_bytes)
    return Weights(
        always_bytes=always_bytes,
        expert_bytes=expert_bytes,
        experts=spec.experts.count,
        active=spec.experts.active,
        routing=routing,
    )


def users_with_room(prepared_estimate: PreparedEstimate, wafers: int) -> int:
    """Return how many users' KV caches would fit if SRAM contained nothing else.

    This is an upper bound for a machine whose weights are streamed in from outside. Layers with
    windowed or chunked attention store only the tokens of one window or chunk.
    """
    spec, wafer, options = prepared_estimate.spec, prepared_estimate.wafer, prepared_estimate.options
    cached = cache_bytes(spec, options.context, ELEMENT_BYTES[options.activation_type])
    return wafers * wafer.mesh_rows * wafer.mesh_cols * wafer.sram_bytes_per_pe // cached


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRate:
    """Comparison of streaming the weights at a certain rate with keeping them in SRAM.

    Attributes:
        one_user: Row for a single user with streamed weights.
        break_even_users: Batch size at which both machines generate the same total tokens/s; None
            if no batch is large enough.
        break_even_users_per_wafer: Batch size at which both machines generate the same tokens/s per
            wafer; None if no batch is large enough.
        users_with_room: Number of users whose KV caches would fill all SRAM.
    """

    one_user: ComparisonRow
    break_even_users: int | None
    break_even_users_per_wafer: int | None
    users_with_room: int

    def __str__(self) -> str:
        """Return a phrase for use in a sentence, such as "at 150 GB/s to 4 wafers"."""
        rate = rate_and_latency(self.one_user.link_bytes_per_s or 0.0)
        return f"at {rate} to {plural(self.one_user.wafers, 'wafer')}"


def streamed_row(
    prepared_estimate: PreparedEstimate, streaming: StreamingBound, wafers: int, batch: int
) -> ComparisonRow:
    """Return a comparison row for weights that are streamed to the wafers in every pass.

    The speeds are upper bounds. The weights are partitioned across the wafers, which receive them
    in parallel.

    Args:
        prepared_estimate: The request, which determines the cache size per user and wafer costs.
        streaming: Total streaming rate to all wafers, and minimum time per pass.
        wafers: Number of wafers.
        batch: Number of users whose tokens are decoded in one pass.
    """
    total_tokens_per_s = streaming.tokens_per_s(batch)
    room = users_with_room(prepared_estimate, wafers)
    limit = _sentence(streaming, wafers, batch)
    if batch > room:
        limit += f"; all SRAM would hold the caches of {room:,} of the {batch:,} users"
    cost: dict[str, Any] = {**power_and_cost(wafers, total_tokens_per_s, prepared_estimate.economics)}
    return ComparisonRow(
        mapping=STREAMED,
        wafers=wafers,
        dtype=prepared_estimate.options.dtype,
        link_bytes_per_s=streaming.bytes_per_s / wafers,
        tokens_per_s_per_user=total_tokens_per_s / batch,
        tpot_s=batch / total_tokens_per_s,
        users=batch,
        tokens_per_s=total_tokens_per_s,
        tokens_per_s_exact=False,
        tokens_per_s_per_user_of_all=total_tokens_per_s / batch,
        wafer_link_bytes_per_token=0,
        host_bytes_per_token=bytes_per_pass(streaming.weights, batch),
        crossing_fraction=0.0,
        limited_by="host" if streaming.waits(batch) else "pass",
        limit=limit,
        **cost,
    )


def _sentence(streaming: StreamingBound, wafers: int, batch: int) -> str:
    """Return a phrase that states what limits the speed: streaming the weights, or the pass."""
    weights = streaming.weights
    host_bytes = bytes_per_pass(weights, batch)
    load = f"{in_bytes(host_bytes)} of weights"
    if weights.expert_bytes:
        used_experts = weights.used_experts(batch)
        load += f", {used_experts:,.3g} of {weights.experts} experts of a layer,"
    speed = f"at {rate_and_latency(streaming.bytes_per_s / wafers)}" + (" to each wafer" if wafers > 1 else "")
    if streaming.waits(batch):
        streaming_time = seconds(host_bytes / streaming.bytes_per_s)
        return f"host: {load} come {speed} for every pass, which takes {streaming_time}"
    return f"pass: {seconds(streaming.pass_s)} with all weights at hand, in which {load} come {speed}"
