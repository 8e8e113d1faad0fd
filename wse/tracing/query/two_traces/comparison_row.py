"""Row of a comparison, and sentences that state what limits the speed and users of a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Final, NamedTuple, TypeVar

from wse.reports.intervals import RangeResult
from wse.reports.number_text import in_bytes, plural, rate_and_latency
from wse.reports.result import Doc, Result
from wse.serving.goal import purpose_text
from wse.tracing.query.costs.step_sums import cycle_fraction

ONE_USER, ALL_USERS = "one_user", "all_users"
"""Users for whom a row can be the best one among those with the same wafers and link."""

BEST, CYCLES_BY, RANGES = "best", "cycles_by", "ranges"


class ComparisonRow(Result):
    """Results for one combination of options (such as a mapping on some wafers) in a comparison.

    For an impossible combination, only ``mapping``, ``wafers`` and ``reason`` are set.

    - ``tokens_per_s_per_user`` is the rate of a user whose batch is alone on the machine.
    - ``tokens_per_s`` is the combined rate of all batches in flight. Energy and cost per token are
      computed at this rate.
    - Traffic per token is the traffic of one decode pass, which generates a token for each user of
      the batch.
    """

    trace: Annotated[str | None, Doc("file, if the row is of a traced run")] = None
    model: Annotated[str | None, Doc("model, if the row is of a traced run")] = None
    mapping: Annotated[str, Doc("requested mapping")]
    chosen: Annotated[str | None, Doc("mapping that was chosen, if it differs from the requested one")] = None
    objective: Annotated[
        str | None, Doc("objective of the layout: `latency` of one user, or `throughput` of all users")
    ] = None
    for_users: Annotated[
        int | None, Doc("number of concurrent users for which the layout is fastest, if more than one")
    ] = None
    wafers: Annotated[int, Doc("number of wafers")]
    dtype: Annotated[str | None, Doc("element type of the weights of linear layers")] = None
    link_bytes_per_s: Annotated[float | None, Doc("rate of each link between wafers", "B/s")] = None
    link_latency_s: Annotated[float | None, Doc("latency of each link between wafers", "s")] = None
    users_per_pass: Annotated[int | None, Doc("users of a batch, whose tokens go through the stages together")] = None
    tokens_per_s_per_user: Annotated[
        float | None, Doc("tokens/s of each user if one batch is alone on the machine", "1/s")
    ] = None
    tpot_s: Annotated[float | None, Doc("time per generated token if one batch is alone on the machine", "s")] = None
    users: Annotated[
        int | None, Doc("concurrent users: those that saturate the machine, or those whose KV caches fit")
    ] = None
    saturated: Annotated[
        bool | None, Doc("whether `users` saturate the machine; false: it is the maximum number that fits")
    ] = None
    tokens_per_s: Annotated[
        float | None, Doc("output tokens/s of all users, including the time for their prompts", "1/s")
    ] = None
    tokens_per_s_exact: Annotated[bool | None, Doc("false if `tokens_per_s` is an upper bound")] = None
    tokens_per_s_per_user_of_all: Annotated[
        float | None, Doc("tokens/s of each user with all users in flight", "1/s")
    ] = None
    ttft_s_of_all: Annotated[float | None, Doc("mean time to first token with all users in flight", "s")] = None
    prefill_tokens_per_s: Annotated[float | None, Doc("prompt tokens divided by TTFT", "1/s")] = None
    ttft_s: Annotated[float | None, Doc("time to first token if one prompt is alone on the machine", "s")] = None
    mesh_hops_per_token: Annotated[float | None, Doc("hops of 32-bit words over links between PEs")] = None
    wafer_link_bytes_per_token: Annotated[
        float | None, Doc("bytes between wafers per decode pass (one token for each user of a batch)", "B")
    ] = None
    host_bytes_per_token: Annotated[
        float | None, Doc("bytes from and to the host per decode pass (one token for each user of a batch)", "B")
    ] = None
    crossing_fraction: Annotated[float | None, Doc("fraction of the time of a token spent between wafers")] = None
    prefill_crossing_fraction: Annotated[float | None, Doc("fraction of the time of a prompt spent between wafers")] = (
        None
    )
    sram_fullest_pe_fraction: Annotated[float | None, Doc("used fraction of SRAM on the fullest PE")] = None
    power_w: Annotated[float | None, Doc("power of all wafers", "W")] = None
    joules_per_token: Annotated[
        float | None, Doc("energy per token at the wall socket, with all users in flight", "J")
    ] = None
    usd_per_million_tokens: Annotated[
        float | None, Doc("cost of a million output tokens of all users, including their prompts", "USD")
    ] = None
    usd_per_million_tokens_low: Annotated[
        float | None, Doc("cost of a million tokens at the low end of the price range", "USD")
    ] = None
    usd_per_million_tokens_high: Annotated[
        float | None, Doc("cost of a million tokens at the high end of the price range", "USD")
    ] = None
    usd_per_million_tokens_of_one_user: Annotated[
        float | None, Doc("cost of a million output tokens of one user who is alone on the machine", "USD")
    ] = None
    limited_by: Annotated[str | None, Doc("cause with the most cycles of a token")] = None
    users_limited_by: Annotated[str | None, Doc("limit on the number of concurrent users")] = None
    limit: Annotated[str | None, Doc("both limits in a sentence")] = None
    cycles_by: Annotated[Mapping[str, float] | None, Doc("cycles of a token by cause", "cycle")] = None
    ranges: Annotated[
        Mapping[str, RangeResult] | None, Doc("90 % intervals of figures of this row; keys are their names")
    ] = None
    best: Annotated[
        tuple[str, ...] | None, Doc("users for whom this is the best row with this number of wafers and this link")
    ] = None
    reason: Annotated[str | None, Doc("why the combination is impossible")] = None

    @property
    def layout(self) -> str:
        """Requested mapping, with the objective for which its layout was chosen.

        The objective is throughput or the speed for a number of users. The default objective, the
        latency of one user, is not mentioned.
        """
        return f"{self.mapping}{self.purpose}"

    @property
    def purpose(self) -> str:
        """Objective for which the layout was chosen, as a phrase such as " for throughput".

        It is "" for the default objective, which is the latency of one user.
        """
        return purpose_text(self.objective) if self.for_users is None else f", layout for {self.for_users:,} users"

    @property
    def possible(self) -> bool:
        """Whether the combination of options can run. If it cannot, ``reason`` states why."""
        return self.reason is None

    @property
    def link(self) -> tuple[float | None, float | None]:
        """Bandwidth in bytes/s and latency in seconds of the links between wafers.

        Both are None for a single wafer.
        """
        return self.link_bytes_per_s, self.link_latency_s


COLUMNS: Final = tuple(field.name for field in fields(ComparisonRow) if field.name not in (BEST, CYCLES_BY, RANGES))
"""Columns of CSV files, in order."""


Cause = TypeVar("Cause", bound=str)


class StreamLimits(NamedTuple):
    """Limits on the number of streams that are in flight concurrently.

    A stream is a batch of users (or one user) whose tokens pass through the stages together. A
    server is, for example, a stage or a link between wafers.

    Attributes:
        limited_by: ``KV cache``, or the server that is always busy.
        users_per_stream: Number of users of a stream.
        streams_to_saturate: Minimum number of streams that keep the busiest server always busy.
        kv_limited_streams: Maximum number of streams whose KV caches fit.
        context_tokens: Number of tokens for which a user's KV cache has room.
        busiest_server: Server that spends the most time on a token.
    """

    limited_by: str
    users_per_stream: int
    streams_to_saturate: int
    kv_limited_streams: int
    context_tokens: int
    busiest_server: str


class Limits(NamedTuple):
    """What limits the speed of one user and the number of users.

    Attributes:
        limited_by: Cause with the most cycles per token.
        users_limited_by: Resource that limits the number of users, or None if unknown.
        limit: Sentence that states both limits.
    """

    limited_by: str
    users_limited_by: str | None
    limit: str


def limits_of(
    cycles_by: Mapping[Cause, float],
    *,
    longest_line: int,
    layers: int,
    crossing_bytes: float,
    link: tuple[float, float] | None = None,
    arithmetic_cycles: float = 0.0,
    streams: StreamLimits | None = None,
) -> Limits:
    """Return what limits the speed for one user and the number of users.

    Args:
        cycles_by: Cycles per token due to each cause.
        longest_line: Length of the longest side of any stage, in PEs.
        layers: Total number of layers in all stages.
        crossing_bytes: Number of bytes sent between wafers per token.
        link: Bandwidth in bytes/s and latency in seconds of the links between wafers, if known.
        arithmetic_cycles: Minimum number of cycles for the arithmetic of a token, or 0 if unknown.
        streams: Limits on the number of streams, or None if unknown.
    """
    cause = max(cycles_by, key=lambda name: cycles_by[name])
    match cause:
        case "hops":
            reason = f"words on their way over lines of {longest_line:,} PEs"
        case "relays":
            reason = f"PEs that pass words on in code, along lines of {longest_line:,} PEs"
        case "compute":
            reason = "vector operations in the PEs"
            if arithmetic_cycles:
                reason += f", {cycles_by[cause] / arithmetic_cycles:,.1f} times what the arithmetic takes at least"
        case "launch":
            mean = cycles_by[cause] / max(1, layers)
            reason = f"the start of steps and messages, {mean:,.0f} for each of {layers} layers"
        case "crossing":
            reason = f"streams between wafers: {in_bytes(crossing_bytes)}"
            if link is not None:
                reason += f" over links of {rate_and_latency(*link, joint=' and ')}"
        case _:
            reason = "waiting for the host"
    percentage = f"{cycles_by[cause] / sum(cycles_by.values()):.0%}".replace("%", " %")
    sentence = f"{cause}: {percentage} of a token's cycles are {reason}"
    if streams is None:
        return Limits(cause, None, sentence)
    return Limits(cause, streams.limited_by, f"{sentence}; {_users(streams)}")


def _users(streams: StreamLimits) -> str:
    """Return a clause that states how many users or streams of users fit, and how many saturate."""
    fitting_count, saturating_count = streams.kv_limited_streams, streams.streams_to_saturate
    server = streams.busiest_server
    is_one, is_stage = not server.startswith("stages "), server.startswith("stage")
    server, be = server if is_stage else f"the {server}", "is" if is_one else "are"
    tokens, verb = f"{streams.context_tokens:,} tokens", "fits" if fitting_count == 1 else "fit"
    noun, size_text = "user", f"of {tokens}"
    if streams.users_per_stream > 1:
        noun, size_text = "stream", f"of {streams.users_per_stream:,} users with {tokens} each"
    caches = f"KV cache: {plural(fitting_count, noun)} {size_text} {verb}"
    if fitting_count < saturating_count:
        return f"{caches}, {saturating_count:,} would keep {server} busy"
    return f"{caches}, and {server} {be} busy all the time from {plural(saturating_count, noun)} on"


def fraction(by: Mapping[Cause, float], cause: Cause) -> float:
    """Return the fraction of all cycles that are due to one cause, or 0 if there are no cycles."""
    return cycle_fraction(by[cause], sum(by.values()))
