"""``schedule`` of an estimate: pipelining of prompt chunks, or of token streams (batches of users)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.result import Doc, Result
from wse.serving import events
from wse.serving.pipelining import (
    cycles_between_passes,
    idle_fraction,
    run_cycles,
    streams_to_saturate,
)
from wse.serving.route import alone_cycles, as_loop, busiest_server, busy_cycles, scaled
from wse.studies.estimate.timing.first_token import MAX_VISITS, ChunksResult, chunks_result
from wse.studies.estimate.timing.servers import HOST_LINK, LINK, REGION, WAFER_LINK
from wse.studies.estimate.timing.stage_times import RouteReader
from wse.studies.results.sram import streams_in_cache

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.phase_cost import PhaseCost

MEASURED_PASSES: Final = 2
"""Passes per stream that a simulation measures, after the steady state has been reached."""
PASSES: Final = 2 + MEASURED_PASSES
"""Passes per stream in a simulation. The first two reach the steady state."""


class StreamsResult(Result):
    """Steady-state speed of a pipeline with a certain number of streams in flight.

    A stream is a batch of users whose tokens go through the pipeline stages together.
    """

    streams: Annotated[int, Doc("streams in flight")]
    users: Annotated[int, Doc("users of these streams")]
    tokens_per_s: Annotated[float, Doc("tokens of all users; an upper bound if not `exact`", "tokens/s")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens of each user", "tokens/s")]
    bubble_fraction: Annotated[float, Doc("fraction of time for which stages are idle in the steady state")]
    fill_and_drain_bubble_fraction: Annotated[
        float,
        Doc("fraction of time for which stages are idle if an empty pipeline makes one token per stream and drains"),
    ]
    limited_by: Annotated[str, Doc("`latency`, or the server that is always busy")]
    exact: Annotated[bool, Doc("whether the closed form is exact; otherwise, it is an upper bound")]


class EventsResult(Result):
    """Speed of a pipeline in a discrete-event simulation, as a check on the closed form.

    The closed form is the formula with which all other speeds in the estimate are computed. A
    stream is a batch of users whose tokens go through the pipeline stages together.
    """

    streams: Annotated[int, Doc("streams in flight")]
    tokens_per_s: Annotated[float, Doc("tokens of all users, as simulated", "tokens/s")]
    closed_form_tokens_per_s: Annotated[float, Doc("tokens of all users, from the closed form", "tokens/s")]


class ServerResult(Result):
    """Time for which one batch of users occupies a server.

    A server is a PE region, a link or a host connection. It handles one batch at a time. Stages
    that share PEs form one server.
    """

    name: Annotated[str, Doc("name of the server")]
    kind: Annotated[str, Doc("region, link, wafer link or host")]
    wafer: Annotated[int, Doc("index of its wafer, or of the wafer whose streams it carries")]
    stages: Annotated[tuple[int, ...], Doc("stages of a region, or the two stages that a link connects")]
    decode_busy_s: Annotated[
        float, Doc("time for which decoding one token per user of a stream occupies the server", "s")
    ]
    decode_latency_s: Annotated[
        float, Doc("additional latency of these tokens after the server has finished its work", "s")
    ]
    prefill_busy_s: Annotated[float, Doc("time for which the prompts of all users of a stream occupy the server", "s")]


class PipeliningResult(Result):
    """Speed of a pipeline of stages with one or more streams in flight.

    A stream is a batch of users whose tokens go through the stages together. Speeds are reported
    for one stream, for the number of streams that keeps the slowest stage or link busy, and for the
    number of streams whose KV caches fit.
    """

    stages: Annotated[int, Doc("stages that work at the same time")]
    users_per_stream: Annotated[int, Doc("users of each stream")]
    context_tokens: Annotated[int, Doc("capacity of a user's KV cache, in tokens")]
    single_stream_tpot_s: Annotated[float, Doc("time per output token of one stream alone", "s")]
    slowest_stage_s: Annotated[float, Doc("time for which one decode pass occupies the slowest stage", "s")]
    slowest_link_s: Annotated[float | None, Doc("time for which one decode pass occupies the slowest link", "s")] = None
    streams_to_saturate: Annotated[int, Doc("streams that keep the slowest server busy")]
    tokens_per_s_at_saturation: Annotated[
        float,
        Doc("output tokens with `streams_to_saturate` streams if no prompts are read at the same time", "tokens/s"),
    ]
    kv_limited_streams: Annotated[int, Doc("streams whose KV caches fit")]
    limited_by: Annotated[str, Doc("`KV cache`, or the slowest server")]
    rows: Annotated[tuple[StreamsResult, ...], Doc("one row per number of streams, up to the number whose caches fit")]
    tokens_per_s_at_kv_limit: Annotated[
        float | None, Doc("tokens of all users, with as many streams as have KV caches that fit", "tokens/s")
    ] = None
    bubble_fraction: Annotated[
        float | None, Doc("fraction of time for which stages are idle with that number of streams")
    ] = None
    by_events: Annotated[EventsResult | None, Doc("a simulation event by event, as a check")] = None
    prefill: Annotated[ChunksResult, Doc("the chunks of the prompts")]
    ttft_s: Annotated[float, Doc("time to first token with pipelined chunks", "s")]
    ttft_sequential_s: Annotated[float, Doc("time to first token with one chunk at a time", "s")]
    servers: Annotated[tuple[ServerResult, ...], Doc("regions and links")]


class Pipelining:
    """Computation of the speed of a pipeline with several streams (batches of users) in flight.

    All streams are assumed to have the same number of tokens in their KV caches.

    Attributes:
        servers: PE regions, links and host connections. A visit in a route refers to a server by
            its index in this list.
        prefill: Route of each prompt chunk, in order: its visits to servers, with their cycles.
        decode: Route of a pass that decodes one token per user.
    """

    def __init__(self, fabric: Fabric, prefill: Sequence[PhaseCost], decode: PhaseCost, token_cycles: float) -> None:
        """Determine how many streams saturate the pipeline, and for how many KV caches fit.

        A stream is a batch of users. The pipeline is saturated if its slowest stage is always busy.

        Args:
            fabric: Timing model of the compiled Program.
            prefill: Cycle count of each prompt chunk, from ``Fabric.prefill_cost``.
            decode: Cycles to decode one token per user of a stream, for one length of the KV
                caches.
            token_cycles: Mean cycles to decode such a token during a request. The cycles of all
                stages and links in ``decode`` are scaled so that their sum is this number.
        """
        program, reader = fabric.program, RouteReader(fabric)
        self._wafer, self._users, self._context = fabric.wafer, program.batch, program.context
        self._token_cycles = token_cycles
        self.prefill = [reader.route(phase, cost) for phase, cost in zip(program.prefill, prefill, strict=True)]
        decode_route = reader.route(program.decode, decode)
        self.decode = scaled(decode_route, token_cycles / alone_cycles(decode_route))
        self.servers = reader.servers
        self._route = as_loop(self.decode)
        self._regions = self.servers_of_kind(REGION)
        self._saturating_streams = streams_to_saturate(self._route)
        self._kv_limited_streams = streams_in_cache(program)

    def servers_of_kind(self, kind: str) -> tuple[int, ...]:
        """Return the indices of all servers of one kind.

        Args:
            kind: Kind as in `Server`, such as ``region``.
        """
        return tuple(number for number, server in enumerate(self.servers) if server.kind == kind)

    def result(self, *, with_rows: bool = True) -> PipeliningResult:
        """Return the limits and speeds of the pipeline.

        Args:
            with_rows: Whether to also compute the speed for various stream counts and to simulate
                one of them. This takes time.
        """
        server, work = busiest_server(self._route)
        is_kv_limited = self._kv_limited_streams < self._saturating_streams
        rows = tuple(self._row(streams) for streams in self._counts()) if with_rows else ()
        prefill = chunks_result(self.prefill, self.servers, self._wafer)
        return PipeliningResult(
            stages=len(self._regions),
            users_per_stream=self._users,
            context_tokens=self._context,
            single_stream_tpot_s=self._seconds(self._token_cycles),
            slowest_stage_s=self._slowest_s(REGION) or 0.0,
            slowest_link_s=self._slowest_s(LINK, WAFER_LINK, HOST_LINK),
            streams_to_saturate=self._saturating_streams,
            tokens_per_s_at_saturation=self._tokens_per_s(work),
            kv_limited_streams=self._kv_limited_streams,
            limited_by="KV cache" if is_kv_limited else self.servers[server].name,
            rows=rows,
            tokens_per_s_at_kv_limit=rows[-1].tokens_per_s if rows else None,
            bubble_fraction=rows[-1].bubble_fraction if rows else None,
            by_events=self._by_events() if rows else None,
            prefill=prefill,
            ttft_s=prefill.ttft_s(self._wafer),
            ttft_sequential_s=prefill.sequential_s + self._wafer.host_round_trip_s / 2,
            servers=self._servers(),
        )

    def _seconds(self, cycles: float) -> float:
        """Convert cycles to seconds at the wafer's clock rate."""
        return cycles / self._wafer.clock_hz

    def _tokens_per_s(self, cycles_between_passes: float) -> float:
        """Return the tokens/s of all users if the pipeline finishes passes at a given interval.

        Args:
            cycles_between_passes: Cycles from one finished pass to the next.
        """
        return self._users * self._wafer.clock_hz / cycles_between_passes

    def _slowest_s(self, *kinds: str) -> float | None:
        """Return the seconds for which a pass occupies the slowest server of the given kinds.

        The result is None if none of these servers has any work.

        Args:
            kinds: Kinds of servers: PE regions, links, wafer links or host links.
        """
        work = busy_cycles([self._route])
        cycles = max((work.get(number, 0.0) for kind in kinds for number in self.servers_of_kind(kind)), default=0.0)
        return self._seconds(cycles) if cycles else None

    def _counts(self) -> list[int]:
        """Return the numbers of streams (batches of users) to report speeds for, ascending.

        They are the number that keeps the slowest stage busy, all powers of two below it, and the
        number whose KV caches fit. Numbers that do not fit are left out.
        """
        powers = {2**power for power in range(self._saturating_streams.bit_length())}
        return sorted(
            streams
            for streams in {*powers, self._saturating_streams, self._kv_limited_streams}
            if 1 <= streams <= self._kv_limited_streams
        )

    def _row(self, streams: int) -> StreamsResult:
        """Return the steady-state speed with ``streams`` batches of users in flight."""
        pass_interval = cycles_between_passes(self._route, streams)
        server, work = busiest_server(self._route)
        fill_and_drain_cycles = run_cycles(self._route, streams, 1).cycles
        return StreamsResult(
            streams=streams,
            users=streams * self._users,
            tokens_per_s=self._tokens_per_s(pass_interval.cycles),
            tokens_per_s_per_user=self._tokens_per_s(pass_interval.cycles) / (streams * self._users),
            bubble_fraction=idle_fraction([self._route], self._regions, pass_interval.cycles),
            fill_and_drain_bubble_fraction=idle_fraction([self._route] * streams, self._regions, fill_and_drain_cycles),
            limited_by="latency" if pass_interval.cycles > work else self.servers[server].name,
            exact=pass_interval.exact,
        )

    def _by_events(self) -> EventsResult:
        """Simulate the steady state of the pipeline event by event, as a check on the formula.

        A stream is a batch of users. The simulation has as many streams as keep the slowest stage
        busy, or fewer if they do not fit or if the simulation would take too long. Each stream
        makes `PASSES` passes, of which the last `MEASURED_PASSES` are measured.
        """
        streams = max(
            1, min(self._saturating_streams, self._kv_limited_streams, MAX_VISITS // (PASSES * len(self._route)))
        )
        end_times = events.run(events.passes(self._route, streams, PASSES))
        last, before_measured = (PASSES - 1) * streams, (PASSES - 1 - MEASURED_PASSES) * streams
        late_ends, early_ends = (sum(end_times[first : first + streams]) for first in (last, before_measured))
        pass_interval = (late_ends - early_ends) / (MEASURED_PASSES * streams * streams)
        closed_form_interval = cycles_between_passes(self._route, streams).cycles
        return EventsResult(
            streams=streams,
            tokens_per_s=self._tokens_per_s(pass_interval),
            closed_form_tokens_per_s=self._tokens_per_s(closed_form_interval),
        )

    def _servers(self) -> tuple[ServerResult, ...]:
        """Return how long one token, and one stream's prompts, occupy each region and link.

        A stream is a batch of users.
        """
        decode, prefill = busy_cycles([self.decode]), busy_cycles(self.prefill)
        latency = dict.fromkeys(range(len(self.servers)), 0.0)
        for visit in self.decode:
            latency[visit.server] += visit.latency_cycles
        return tuple(
            ServerResult.from_parts(
                server,
                decode_busy_s=self._seconds(decode.get(number, 0.0)),
                decode_latency_s=self._seconds(latency[number]),
                prefill_busy_s=self._seconds(prefill.get(number, 0.0)),
            )
            for number, server in enumerate(self.servers)
        )
