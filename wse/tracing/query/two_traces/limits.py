"""Sentences that state what limits the speed and the number of users of a system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from wse.reports.terminal import in_bytes, plural, rate_and_latency

Cause = TypeVar("Cause", bound=str)


class StreamLimits(NamedTuple):
    """Limits on the number of streams that are in flight concurrently.

    A stream is a batch of users (or one user) whose tokens pass through the stages together.

    Attributes:
        limited_by: ``KV cache``, or the server (such as a stage or a link) that is always busy.
        users_per_stream: Number of users whose tokens pass through the stages as one batch.
        streams_to_saturate: Minimum number of streams that keep the busiest server always busy.
        kv_limited_streams: Maximum number of streams whose KV caches fit.
        context_tokens: Number of tokens that fit in a user's KV cache.
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
    """Return a clause that states how many users can be served and what limits this number."""
    fitting_users, saturating_users = (
        count * streams.users_per_stream for count in (streams.kv_limited_streams, streams.streams_to_saturate)
    )
    server = streams.busiest_server
    is_one, is_stage = not server.startswith("stages "), server.startswith("stage")
    server, be = server if is_stage else f"the {server}", "is" if is_one else "are"
    verb = "fits" if fitting_users == 1 else "fit"
    caches = f"KV cache: {plural(fitting_users, 'user')} of {streams.context_tokens:,} tokens {verb}"
    if fitting_users < saturating_users:
        return f"{caches}, {saturating_users:,} would keep {server} busy"
    return f"{caches}, and {server} {be} busy all the time from {plural(saturating_users, 'user')} on"


def fraction(by: Mapping[Cause, float], cause: Cause) -> float:
    """Return the cycles of one cause as a fraction of all cycles, or 0 if there are no cycles."""
    total = sum(by.values())
    return by[cause] / total if total else 0.0
