"""Tests of closed forms for tokens and chunks in a pipeline, against a discrete-event run of the same routes."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.serving.events import Job, chunks, passes, run
from wse.serving.pipelining import chunks_cycles, cycles_between_passes, idle_fraction, run_cycles, streams_to_saturate
from wse.serving.route import PassRoute, Visit, alone_cycles, as_loop, busiest_server, busy_cycles, visits_once

WHOLE_CYCLES = st.integers(0, 40).map(float)  # whole numbers, so that sums are exact
STREAMS = st.integers(1, 9)


@st.composite
def lines(draw: st.DrawFn, *, max_servers: int = 6) -> PassRoute:
    """Draw a route through servers one after another, each visited once; the first one works for at least 1 cycle."""
    visits = draw(st.lists(st.tuples(WHOLE_CYCLES, WHOLE_CYCLES), min_size=1, max_size=max_servers))
    route = tuple(Visit(server, busy, latency) for server, (busy, latency) in enumerate(visits))
    return (route[0]._replace(busy_cycles=route[0].busy_cycles + 1), *route[1:])


@st.composite
def any_routes(draw: st.DrawFn) -> PassRoute:
    """Draw a route through servers in any order, some of which may be visited more than once."""
    visits = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30).map(float), WHOLE_CYCLES), min_size=1, max_size=7)
    )
    return tuple(Visit(*visit) for visit in visits)


@st.composite
def prompts(draw: st.DrawFn) -> list[PassRoute]:
    """Draw the routes of the chunks of a prompt: different times on one line of servers.

    The route of the last chunk continues to a head, which may be on a server of the line.
    """
    servers = draw(st.integers(1, 5))
    times = st.lists(st.tuples(WHOLE_CYCLES, WHOLE_CYCLES), min_size=servers, max_size=servers)
    routes = [
        tuple(Visit(server, *pair) for server, pair in enumerate(pairs))
        for pairs in draw(st.lists(times, min_size=1, max_size=6))
    ]
    head = draw(st.lists(st.tuples(st.integers(0, servers), WHOLE_CYCLES, WHOLE_CYCLES), max_size=3))
    routes[-1] = (*routes[-1], *(Visit(*visit) for visit in head))
    return routes


def steady_by_events(route: PassRoute, streams: int, *, count: int = 5) -> Fraction:
    """Return the mean cycles between passes over the last two passes of every stream, by the discrete-event run."""
    ended = run(passes(route, streams, count))
    return Fraction(sum(ended[-streams:]) - sum(ended[-3 * streams : -2 * streams])) / (2 * streams * streams)


@given(route=lines(), streams=STREAMS)
def test_steady_state_equals_that_of_the_event_run(route: PassRoute, streams: int) -> None:
    found = cycles_between_passes(route, streams)
    assert found.exact
    exact = max(Fraction(alone_cycles(route)) / streams, Fraction(busiest_server(route)[1]))
    assert steady_by_events(route, streams) == exact
    assert found.cycles == pytest.approx(float(exact), rel=1e-15)


@given(route=lines(), streams=STREAMS, count=st.integers(1, 6))
def test_finite_run_takes_as_long_as_the_event_run(route: PassRoute, streams: int, count: int) -> None:
    found = run_cycles(route, streams, count)
    assert found.exact
    assert found.cycles == max(run(passes(route, streams, count)))


@given(route=any_routes(), streams=STREAMS, count=st.integers(1, 6))
def test_revisited_server_leaves_a_bound(route: PassRoute, streams: int, count: int) -> None:
    ended = run(passes(route, streams, count))
    found = run_cycles(route, streams, count)
    assert found.exact == (streams == 1 or visits_once(route))
    assert max(ended) == found.cycles if found.exact else max(ended) >= found.cycles
    # No visit waits for more than one visit of each other stream to the same server.
    longest: dict[int, float] = {}
    for visit in route:
        longest[visit.server] = max(longest.get(visit.server, 0.0), visit.busy_cycles)
    waits = (streams - 1) * sum(longest[visit.server] for visit in route)
    assert max(ended) <= count * (alone_cycles(route) + waits)
    assert cycles_between_passes(route, streams).cycles * streams * count <= max(ended) + 1e-6


@given(route=lines())
def test_saturation_begins_at_the_computed_number_of_streams(route: PassRoute) -> None:
    enough, work = streams_to_saturate(route), busiest_server(route)[1]
    assert cycles_between_passes(route, enough).cycles == work
    if enough > 1:
        assert cycles_between_passes(route, enough - 1).cycles > work


@given(stages=st.integers(1, 12), streams=st.integers(1, 40), work=st.integers(1, 50).map(float))
def test_idle_fraction_of_equal_stages_follows_the_pipeline_formula(stages: int, streams: int, work: float) -> None:
    route = tuple(Visit(stage, work) for stage in range(stages))
    cycles = run_cycles(route, streams, 1).cycles
    assert cycles == (streams + stages - 1) * work
    idle = idle_fraction([route] * streams, range(stages), cycles)
    assert idle == pytest.approx((stages - 1) / (streams + stages - 1), abs=1e-12)
    steady = idle_fraction([route], range(stages), cycles_between_passes(route, streams).cycles)
    assert steady == pytest.approx(max(0.0, 1 - streams / stages), abs=1e-12)


@given(routes=prompts())
def test_chunks_take_as_long_as_the_event_run(routes: list[PassRoute]) -> None:
    found = chunks_cycles(routes)
    assert found.exact
    assert found.cycles == run(chunks(routes))[-1]
    assert found.cycles <= sum(map(alone_cycles, routes))


@given(routes=st.lists(any_routes(), min_size=1, max_size=6))
def test_any_chunks_take_at_least_the_bound(routes: list[PassRoute]) -> None:
    found, last = chunks_cycles(routes), run(chunks(routes))[-1]
    assert last == found.cycles if found.exact else last >= found.cycles


def test_chunks_of_two_prompts_are_not_exact() -> None:
    """The head of the first prompt, at the first stage, is between the chunks of the second prompt."""
    chunk = (Visit(0, 5.0), Visit(1, 6.0))
    found = chunks_cycles([(*chunk, Visit(0, 2.0)), (*chunk, Visit(0, 2.0))])
    assert (found.cycles, found.exact) == (19.0, False)
    assert max(run(chunks([(*chunk, Visit(0, 2.0)), (*chunk, Visit(0, 2.0))]))) == 19.0


def test_bound_for_several_prompts_includes_the_path_of_the_last_slow_chunk() -> None:
    """Later chunks take longer, because more tokens are cached."""
    chunks_of_prompt = [tuple(Visit(stage, 10.0 + number) for stage in range(1, 21)) for number in range(8)]
    prompt = [*chunks_of_prompt[:-1], (*chunks_of_prompt[-1], Visit(1, 2.0))]
    found, last = chunks_cycles(3 * prompt), run(chunks(3 * prompt))[-1]
    assert not found.exact
    assert found.cycles == last


def test_run_gives_results_computed_by_hand() -> None:
    """Two or three streams on two servers, which work for 2 and 3 cycles, 1 cycle apart; the second server limits."""
    route = (Visit(0, 2.0, 1.0), Visit(1, 3.0))
    assert run(passes(route, 2, 2)) == [6.0, 9.0, 12.0, 15.0]
    assert run(passes(route, 3, 2)) == [6.0, 9.0, 12.0, 15.0, 18.0, 21.0]
    assert run([Job(route), Job(route, leader=0), Job(route, predecessor=1)]) == [6.0, 9.0, 15.0]


def test_loop_merges_first_and_last_visit_to_one_server() -> None:
    """With a tied table, the head and the embedding of the next token are one visit, so the steady state is exact."""
    route = (Visit(0, 4.0, 1.0), Visit(1, 5.0, 2.0), Visit(0, 3.0))
    assert as_loop(route) == (Visit(0, 7.0, 1.0), Visit(1, 5.0, 2.0))
    assert alone_cycles(as_loop(route)) == alone_cycles(route)
    for same in ((Visit(0, 4.0),), (Visit(0, 4.0), Visit(1, 1.0)), (Visit(0, 4.0), Visit(1, 1.0), Visit(0, 1.0, 9.0))):
        assert as_loop(same) == same


@given(route=any_routes(), streams=STREAMS, count=st.integers(1, 4))
def test_event_run_has_one_job_per_server_and_streams_in_order(route: PassRoute, streams: int, count: int) -> None:
    ended = run(passes(route, streams, count))
    for stream in range(streams):
        assert all(b - a >= alone_cycles(route) for a, b in pairwise([0.0, *ended[stream::streams]]))
    assert max(ended) >= max(busy_cycles([route] * (streams * count)).values())
