"""Rows of a model whose weights come from outside the wafer for every pass, at most, and where they break even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import cache_bytes, coding_of, tensor_bytes, tensor_shapes
from wse.number_formats import ELEMENT_BYTES
from wse.reports.terminal import in_bytes, plural, rate_and_latency, seconds
from wse.serving.cost import power_and_cost
from wse.serving.weight_streaming import StreamingBound, Weights, bytes_per_pass, distinct_experts
from wse.studies.estimate.prepare import PreparedEstimate
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

STREAMED: Final = "streamed"
BATCHES: Final = (1, 8, 64, 512)
"""Users whose tokens share a pass, besides where it breaks even."""
_BY_ROW: Final = ("embedding", "positions")
"""Tables of which a token reads one row."""


def weights_of(spec: ModelSpec, dtype: str, activation_type: str) -> Weights:
    """Return the bytes of a model's weights as they are held: what all tokens use, and what only those of an expert do.

    A table that a token reads one row of counts for nothing, unless it is the head's too.
    """
    float_bytes = ELEMENT_BYTES[activation_type]
    always = of_experts = 0
    for name, shape in tensor_shapes(spec).items():
        if name in _BY_ROW and not (name == "embedding" and spec.tied_embedding):
            continue
        stored = tensor_bytes(shape, coding_of(spec, name, dtype), float_bytes)
        if ".experts." in name:
            of_experts += stored
        else:
            always += stored
    if spec.experts is None:
        return Weights(always_bytes=always)
    return Weights(always_bytes=always, expert_bytes=of_experts, experts=spec.experts.count, active=spec.experts.active)


def users_with_room(prepared: PreparedEstimate, wafers: int) -> int:
    """Users whose caches would fit if all SRAM held nothing else: no more than these, whatever is streamed.

    A layer that sees a window or a chunk of tokens needs to keep no more than those.
    """
    spec, wafer, options = prepared.spec, prepared.wafer, prepared.options
    cached = cache_bytes(spec, options.context, ELEMENT_BYTES[options.activation_type])
    return wafers * wafer.mesh_rows * wafer.mesh_cols * wafer.sram_bytes_per_pe // cached


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRate:
    """Weights that come in at one rate to a number of wafers, against SRAM.

    Attributes:
        one_user: The row of one user.
        break_even_users: Users whose batch gets as many tokens as SRAM serves; None where no batch does.
        break_even_users_per_wafer: Users whose batch gets as many tokens for a wafer.
        users_with_room: Users whose caches all SRAM would hold.
    """

    one_user: ComparisonRow
    break_even_users: int | None
    break_even_users_per_wafer: int | None
    users_with_room: int

    def __str__(self) -> str:
        rate = rate_and_latency(self.one_user.link_bytes_per_s or 0.0)
        return f"at {rate} to {plural(self.one_user.wafers, 'wafer')}"


def streamed_row(prepared: PreparedEstimate, streaming: StreamingBound, wafers: int, batch: int) -> ComparisonRow:
    """Return the row of ``batch`` users whose weights come to all wafers at once, a share to each.

    Rates are at most that.
    """
    of_all = streaming.tokens_per_s(batch)
    room = users_with_room(prepared, wafers)
    limit = _sentence(streaming, wafers, batch)
    if batch > room:
        limit += f"; all SRAM would hold the caches of {room:,} of the {batch:,} users"
    cost: dict[str, Any] = {**power_and_cost(wafers, of_all, prepared.economics)}
    return ComparisonRow(
        mapping=STREAMED,
        wafers=wafers,
        dtype=prepared.options.dtype,
        link_bytes_per_s=streaming.bytes_per_s / wafers,
        tokens_per_s_per_user=of_all / batch,
        tpot_s=batch / of_all,
        users=batch,
        tokens_per_s=of_all,
        tokens_per_s_exact=False,
        tokens_per_s_per_user_of_all=of_all / batch,
        wafer_link_bytes_per_token=0,
        host_bytes_per_token=bytes_per_pass(streaming.weights, batch),
        crossing_fraction=0.0,
        limited_by="host" if streaming.waits(batch) else "pass",
        limit=limit,
        **cost,
    )


def _sentence(streaming: StreamingBound, wafers: int, batch: int) -> str:
    weights = streaming.weights
    host_bytes = bytes_per_pass(weights, batch)
    load = f"{in_bytes(host_bytes)} of weights"
    if weights.expert_bytes:
        used = distinct_experts(weights.experts, weights.active, batch)
        load += f", {used:,.3g} of {weights.experts} experts of a layer,"
    speed = f"at {rate_and_latency(streaming.bytes_per_s / wafers)}" + (" to each wafer" if wafers > 1 else "")
    if streaming.waits(batch):
        waits = seconds(host_bytes / streaming.bytes_per_s)
        return f"host: {load} come {speed} for every pass, which takes {waits}"
    return f"pass: {seconds(streaming.pass_s)} with all weights at hand, in which {load} come {speed}"
