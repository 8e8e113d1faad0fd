"""Closed forms of tokens and chunks in transit through stages against the discrete-event run of the same routes."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.serving.events import Job, chunks, passes, run
from wse.serving.pipelining import chunks_cycles, cycles_between_passes, idle_fraction, run_cycles, streams_to_saturate
from wse.serving.route import PassRoute, Visit, alone_cycles, as_loop, busiest_server, busy_cycles, visits_once

WHOLE = st.integers(0, 40).map(float)  # sums of whole cycles are exact
STREAMS = st.integers(1, 9)


@st.composite
def lines(draw: st.DrawFn, *, most: int = 6) -> PassRoute:
    """Servers one after another, each visited once; at least one of them works."""
    visits = draw(st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=most))
    route = tuple(Visit(server, busy, latency) for server, (busy, latency) in enumerate(visits))
    return (route[0]._replace(busy_cycles=route[0].busy_cycles + 1), *route[1:])


@st.composite
def any_routes(draw: st.DrawFn) -> PassRoute:
    """Servers in any order, some of them more than once."""
    visits = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30).map(float), WHOLE), min_size=1, max_size=7))
    return tuple(Visit(*visit) for visit in visits)


@st.composite
def prompts(draw: st.DrawFn) -> list[PassRoute]:
    """Chunks of different sizes on one line of servers; the last goes on to a head, maybe at a server that it knows."""
    servers = draw(st.integers(1, 5))
    times = st.lists(st.tuples(WHOLE, WHOLE), min_size=servers, max_size=servers)
    routes = [
        tuple(Visit(server, *pair) for server, pair in enumerate(pairs))
        for pairs in draw(st.lists(times, min_size=1, max_size=6))
    ]
    head = draw(st.lists(st.tuples(st.integers(0, servers), WHOLE, WHOLE), max_size=3))
    routes[-1] = (*routes[-1], *(Visit(*visit) for visit in head))
    return routes


def steady_by_events(route: PassRoute, streams: int, *, count: int = 5) -> Fraction:
    """Cycles between passes over the last two passes of every stream."""
    ended = run(passes(route, streams, count))
    return Fraction(sum(ended[-streams:]) - sum(ended[-3 * streams : -2 * streams])) / (2 * streams * streams)


@given(route=lines(), streams=STREAMS)
def test_steady_state_is_the_event_runs(route: PassRoute, streams: int) -> None:
    found = cycles_between_passes(route, streams)
    assert found.exact
    exact = max(Fraction(alone_cycles(route)) / streams, Fraction(busiest_server(route)[1]))
    assert steady_by_events(route, streams) == exact
    assert found.cycles == pytest.approx(float(exact), rel=1e-15)


@given(route=lines(), streams=STREAMS, count=st.integers(1, 6))
def test_finite_run_takes_what_the_event_run_takes(route: PassRoute, streams: int, count: int) -> None:
    found = run_cycles(route, streams, count)
    assert found.exact
    assert found.cycles == max(run(passes(route, streams, count)))


@given(route=any_routes(), streams=STREAMS, count=st.integers(1, 6))
def test_coming_back_to_a_server_leaves_a_bound(route: PassRoute, streams: int, count: int) -> None:
    ended = run(passes(route, streams, count))
    found = run_cycles(route, streams, count)
    assert found.exact == (streams == 1 or visits_once(route))
    assert max(ended) == found.cycles if found.exact else max(ended) >= found.cycles
    # no visit waits for more than one visit to the same server of each other stream
    longest: dict[int, float] = {}
    for visit in route:
        longest[visit.server] = max(longest.get(visit.server, 0.0), visit.busy_cycles)
    waits = (streams - 1) * sum(longest[visit.server] for visit in route)
    assert max(ended) <= count * (alone_cycles(route) + waits)
    assert cycles_between_passes(route, streams).cycles * streams * count <= max(ended) + 1e-6


@given(route=lines())
def test_saturation_begins_with_the_stream_that_is_told(route: PassRoute) -> None:
    enough, work = streams_to_saturate(route), busiest_server(route)[1]
    assert cycles_between_passes(route, enough).cycles == work
    if enough > 1:
        assert cycles_between_passes(route, enough - 1).cycles > work


@given(stages=st.integers(1, 12), streams=st.integers(1, 40), work=st.integers(1, 50).map(float))
def test_bubbles_of_equal_stages_are_those_of_the_pipeline_formula(stages: int, streams: int, work: float) -> None:
    route = tuple(Visit(stage, work) for stage in range(stages))
    cycles = run_cycles(route, streams, 1).cycles
    assert cycles == (streams + stages - 1) * work
    idle = idle_fraction([route] * streams, range(stages), cycles)
    assert idle == pytest.approx((stages - 1) / (streams + stages - 1), abs=1e-12)
    steady = idle_fraction([route], range(stages), cycles_between_passes(route, streams).cycles)
    assert steady == pytest.approx(max(0.0, 1 - streams / stages), abs=1e-12)


@given(routes=prompts())
def test_chunks_take_what_the_event_run_takes(routes: list[PassRoute]) -> None:
    found = chunks_cycles(routes)
    assert found.exact
    assert found.cycles == run(chunks(routes))[-1]
    assert found.cycles <= sum(map(alone_cycles, routes))


@given(routes=st.lists(any_routes(), min_size=1, max_size=6))
def test_any_chunks_take_at_least_the_bound(routes: list[PassRoute]) -> None:
    found, last = chunks_cycles(routes), run(chunks(routes))[-1]
    assert last == found.cycles if found.exact else last >= found.cycles


def test_chunks_of_two_prompts_are_not_in_line() -> None:
    """The first prompt's head, at the first stage, comes between the chunks of the second."""
    chunk = (Visit(0, 5.0), Visit(1, 6.0))
    found = chunks_cycles([(*chunk, Visit(0, 2.0)), (*chunk, Visit(0, 2.0))])
    assert (found.cycles, found.exact) == (19.0, False)
    assert max(run(chunks([(*chunk, Visit(0, 2.0)), (*chunk, Visit(0, 2.0))]))) == 19.0


def test_run_by_hand() -> None:
    """Two streams, two servers: 2 and 3 cycles, 1 between. The second server is the slowest."""
    route = (Visit(0, 2.0, 1.0), Visit(1, 3.0))
    assert run(passes(route, 2, 2)) == [6.0, 9.0, 12.0, 15.0]
    assert run(passes(route, 3, 2)) == [6.0, 9.0, 12.0, 15.0, 18.0, 21.0]
    assert run([Job(route), Job(route, leader=0), Job(route, predecessor=1)]) == [6.0, 9.0, 15.0]


def test_loop_goes_on_at_the_server_where_it_ended() -> None:
    """A tied table: the head and the next token's embedding are one visit, and the steady state is exact again."""
    route = (Visit(0, 4.0, 1.0), Visit(1, 5.0, 2.0), Visit(0, 3.0))
    assert as_loop(route) == (Visit(0, 7.0, 1.0), Visit(1, 5.0, 2.0))
    assert alone_cycles(as_loop(route)) == alone_cycles(route)
    for same in ((Visit(0, 4.0),), (Visit(0, 4.0), Visit(1, 1.0)), (Visit(0, 4.0), Visit(1, 1.0), Visit(0, 1.0, 9.0))):
        assert as_loop(same) == same


@given(route=any_routes(), streams=STREAMS, count=st.integers(1, 4))
def test_event_run_keeps_every_server_to_one_job_and_every_stream_in_order(
    route: PassRoute, streams: int, count: int
) -> None:
    ended = run(passes(route, streams, count))
    for stream in range(streams):
        assert all(b - a >= alone_cycles(route) for a, b in pairwise([0.0, *ended[stream::streams]]))
    assert max(ended) >= max(busy_cycles([route] * (streams * count)).values())
