"""The limits of a comparison's row, in one sentence that follows from its numbers by rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from wse.reports.terminal import in_bytes, plural, rate_and_latency

Cause = TypeVar("Cause", bound=str)


class StreamLimits(NamedTuple):
    """The limits on the number of concurrent streams.

    Attributes:
        limited_by: ``KV cache``, or the server that is always busy.
        users_per_stream: Users whose tokens go through the stages as one batch.
        streams_to_saturate: Streams that keep the busiest server busy.
        kv_limited_streams: Streams whose KV caches fit.
        context_tokens: Tokens that a user's KV cache has room for.
        busiest_server: The server that works longest for a token.
    """

    limited_by: str
    users_per_stream: int
    streams_to_saturate: int
    kv_limited_streams: int
    context_tokens: int
    busiest_server: str


class Limits(NamedTuple):
    """The limits of a row of a comparison: for one user, for all users, and both as a sentence."""

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
    """Return the limits of one user and of all users.

    Args:
        cycles_by: Cycles of a token by cause.
        longest_line: PEs of the longest side of any stage.
        layers: Layers of all stages.
        crossing_bytes: Bytes of a token between wafers.
        link: Bytes a second and latency in seconds of the links between wafers, where they are known.
        arithmetic_cycles: The fewest cycles that the arithmetic of a token takes; 0 where that is not known.
        streams: The limits of all users; None where they are not known.
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
    share = f"{cycles_by[cause] / sum(cycles_by.values()):.0%}".replace("%", " %")
    sentence = f"{cause}: {share} of a token's cycles are {reason}"
    if streams is None:
        return Limits(cause, None, sentence)
    return Limits(cause, streams.limited_by, f"{sentence}; {_users(streams)}")


def _users(streams: StreamLimits) -> str:
    """Return the limit on the number of users, and with it on the throughput."""
    fitting, enough = (
        count * streams.users_per_stream for count in (streams.kv_limited_streams, streams.streams_to_saturate)
    )
    server = streams.busiest_server
    is_one, is_stage = not server.startswith("stages "), server.startswith("stage")
    server, be = server if is_stage else f"the {server}", "is" if is_one else "are"
    verb = "fits" if fitting == 1 else "fit"
    caches = f"KV cache: {plural(fitting, 'user')} of {streams.context_tokens:,} tokens {verb}"
    if fitting < enough:
        return f"{caches}, {enough:,} would keep {server} busy"
    return f"{caches}, and {server} {be} busy all the time from {plural(enough, 'user')} on"


def fraction(by: Mapping[Cause, float], cause: Cause) -> float:
    """Return the fraction of one cause in total cycles."""
    total = sum(by.values())
    return by[cause] / total if total else 0.0
