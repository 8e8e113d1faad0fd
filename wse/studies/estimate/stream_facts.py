"""``schedule`` of a report: tokens of several streams, and chunks of prompts, on their way through stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from wse.fabric.model import Fabric
from wse.fabric.phase_cost import PhaseCost
from wse.report.as_json import Report
from wse.serving import events
from wse.serving.pipelining import (
    Requests,
    chunks_cycles,
    cycles_between_passes,
    idle_fraction,
    requests,
    run_cycles,
    streams_to_saturate,
)
from wse.serving.route import Route, alone_cycles, as_loop, busy_cycles, slowest
from wse.studies.estimate.stage_times import HOST_LINK, LINK, REGION, WAFER_LINK, Server, stage_times, streams_in_cache

MOST_VISITS: Final = 40_000
"""Visits of the longest discrete-event run of a report: some 0.1 s."""
PASSES: Final = 4  # of each stream in an event run: two until it is steady, two that are measured
CLOSED_FORM, EVENTS, BOUND = "closed form", "discrete-event run", "lower bound"


def schedule_facts(fabric: Fabric, prefill: Sequence[PhaseCost], decode: PhaseCost, new_tokens: int) -> Report:
    """``schedule``: one stream, streams until the slowest server is saturated and until the caches are full, prompts.

    A stream is the Program's batch: its users' tokens go through the stages together. All streams are taken to be
    alike, at the length of the caches that ``decode`` is for.

    Args:
        fabric: The model that made the costs.
        prefill: The cost of each chunk of the prompts.
        decode: The cost of one token of each user.
        new_tokens: Tokens that each user gets.
    """
    return _Schedule(fabric, prefill, decode, new_tokens).facts()


class _Schedule:
    def __init__(self, fabric: Fabric, prefill: Sequence[PhaseCost], decode: PhaseCost, new_tokens: int) -> None:
        self._wafer, self._users = fabric.wafer, fabric.program.batch
        self._new_tokens, self._context = new_tokens, fabric.program.context
        self._times = stage_times(fabric, prefill, decode)
        self._route = as_loop(self._times.decode)
        self._regions = self._times.of_kind(REGION)
        self._enough = streams_to_saturate(self._route)
        self._in_cache = streams_in_cache(fabric.program)

    @cached_property
    def _requests(self) -> Requests:
        return requests(self._times.prefill, self._route, self._new_tokens)

    def facts(self) -> Report:
        number, work = slowest(self._route)
        kv_binds = self._in_cache < self._enough
        facts: Report = {
            "stages": len(self._regions),
            "users_per_stream": self._users,
            "context_tokens": self._context,
            "single_stream_tpot_s": self._seconds(alone_cycles(self._route)),
            **self._slowest_of_each_kind(),
            "streams_to_saturate": self._enough,
            "tokens_per_s_at_saturation": self._tokens_per_s(work),
            "kv_limited_streams": self._in_cache,
            "limited_by": "KV cache" if kv_binds else server_name(self._times.servers[number]),
            "rows": [self._row(streams) for streams in self._counts()],
        }
        if self._in_cache:
            most = facts["rows"][-1]
            facts["tokens_per_s_at_kv_limit"] = most["tokens_per_s"]
            facts["bubble_fraction"] = most["bubble_fraction"]
            facts["by_events"] = self._by_events()
        if self._times.prefill:
            facts |= self._prompts()
        return {**facts, "servers": self._servers()}

    def _seconds(self, cycles: float) -> float:
        return cycles / self._wafer.clock_hz

    def _tokens_per_s(self, cycles_between_passes: float) -> float:
        return self._users * self._wafer.clock_hz / cycles_between_passes

    def _slowest_of_each_kind(self) -> Report:
        """``slowest_stage_s`` and, where there are links, ``slowest_link_s``: work for one pass."""
        work = busy_cycles([self._route])
        facts: Report = {}
        for key, kinds in (("slowest_stage_s", (REGION,)), ("slowest_link_s", (LINK, WAFER_LINK, HOST_LINK))):
            found = [work.get(number, 0.0) for kind in kinds for number in self._times.of_kind(kind)]
            if any(found):
                facts[key] = self._seconds(max(found))
        return facts

    def _counts(self) -> list[int]:
        """Powers of two until enough, what is enough, and what the caches hold; none beyond these."""
        powers = {2**power for power in range(self._enough.bit_length())}
        return sorted(count for count in {*powers, self._enough, self._in_cache} if 1 <= count <= self._in_cache)

    def _row(self, streams: int) -> Report:
        found = cycles_between_passes(self._route, streams)
        number, work = slowest(self._route)
        once = run_cycles(self._route, streams, 1).cycles
        row: Report = {
            "streams": streams,
            "users": streams * self._users,
            "tokens_per_s": self._tokens_per_s(found.cycles),
            "tokens_per_s_per_user": self._tokens_per_s(found.cycles) / (streams * self._users),
            "bubble_fraction": idle_fraction([self._route], self._regions, found.cycles),
            "fill_and_drain_bubble_fraction": idle_fraction([self._route] * streams, self._regions, once),
            "limited_by": "latency" if found.cycles > work else server_name(self._times.servers[number]),
            "exact": found.exact,
        }
        if self._times.prefill:
            between = self._requests.cycles_between(streams).cycles
            row["tokens_per_s_with_prompts_at_most"] = self._new_tokens * self._tokens_per_s(between)
        return row

    def _by_events(self) -> Report:
        """The same steady state event by event, of as many streams as saturate it, fit and do not take long."""
        streams = max(1, min(self._enough, self._in_cache, MOST_VISITS // (PASSES * len(self._route))))
        ended = events.run(events.passes(self._route, streams, PASSES))
        late, early = (sum(ended[first : first + streams]) for first in (3 * streams, streams))
        found = (late - early) / (2 * streams * streams)
        closed = cycles_between_passes(self._route, streams).cycles
        return {
            "streams": streams,
            "tokens_per_s": self._tokens_per_s(found),
            "closed_form_tokens_per_s": self._tokens_per_s(closed),
        }

    def _prompts(self) -> Report:
        """``prefill`` and ``ttft_s``, with the way of the first token to the host."""
        routes = self._times.prefill
        sequential = sum(times * alone_cycles(route) for route, times in Counter(routes).items())
        pipelined, how = _pipelined(routes)
        out = self._wafer.host_round_trip_s / 2
        return {
            "prefill": {
                "chunks": len(routes),
                "sequential_s": self._seconds(sequential),
                "pipelined_s": self._seconds(pipelined),
                "pipelined_by": how,
                "bubble_fraction": idle_fraction(routes, self._regions, pipelined),
            },
            "ttft_s": self._seconds(pipelined) + out,
            "ttft_sequential_s": self._seconds(sequential) + out,
        }

    def _servers(self) -> list[Report]:
        """What each server does for a token and for all prompts of a stream."""
        decode, prefill = busy_cycles([self._times.decode]), busy_cycles(self._times.prefill)
        latency = dict.fromkeys(range(len(self._times.servers)), 0.0)
        for visit in self._times.decode:
            latency[visit.server] += visit.latency_cycles
        return [
            {
                "name": server_name(server),
                "kind": server.kind,
                "wafer": server.wafer,
                "stages": list(server.stages),
                "decode_busy_s": self._seconds(decode.get(number, 0.0)),
                "decode_latency_s": self._seconds(latency[number]),
                "prefill_busy_s": self._seconds(prefill.get(number, 0.0)),
            }
            for number, server in enumerate(self._times.servers)
        ]


def _pipelined(routes: Sequence[Route]) -> tuple[float, str]:
    """Cycles of chunks that follow each other through the stages, and how they were found."""
    found = chunks_cycles(routes)
    if found.exact:
        return found.cycles, CLOSED_FORM
    if sum(map(len, routes)) > MOST_VISITS:
        return found.cycles, BOUND
    return events.run(events.chunks(routes))[-1], EVENTS


def server_name(server: Server) -> str:
    """What people call it."""
    stages = ", ".join(map(str, server.stages))
    match server.kind:
        case "region":
            return f"stage {stages}" if len(server.stages) == 1 else f"stages {stages}"
        case "link":
            return f"link of stages {stages}"
        case "wafer link":
            return f"link out of wafer {server.wafer}"
        case _:
            return f"link of the host to wafer {server.wafer}"
