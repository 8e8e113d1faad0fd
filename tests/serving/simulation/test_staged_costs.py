"""Tests of the costs of rounds on pipelines of stages, and of the durations of runs of decode passes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.serving.events import Job, chunks, passes, run
from wse.serving.pipelining import cycles_between_passes
from wse.serving.route import Visit, alone_cycles, busiest_server
from wse.serving.simulation.costs.decode_times import DecodeTimes
from wse.serving.simulation.costs.pass_costs import PromptPart
from wse.serving.simulation.costs.staged_costs import ChunkGrid, DecodeGrid, PassTime, StagedCosts

ROUTE = (Visit(0, 3.0, 0.5), Visit(1, 5.0, 0.5), Visit(2, 4.0, 2.0))
CHUNK = (Visit(0, 6.0, 0.5), Visit(1, 9.0, 0.5), Visit(2, 7.0, 2.0))


def time_of(route: tuple[Visit, ...], factor: float = 1.0) -> PassTime:
    """Return the time of a pass on a route, multiplied by `factor`."""
    return PassTime(factor * alone_cycles(route), factor * busiest_server(route)[1])


ONE = time_of(ROUTE)
TWO = time_of(ROUTE, 1.6)  # a pass with two slots
FIRST, LAST = time_of(CHUNK), time_of(CHUNK, 1.5)
REST = (time_of(CHUNK, 0.25), time_of(CHUNK, 0.375))


def costs(slots: int = 1) -> StagedCosts:
    """Return costs of a pipeline whose prompts are read in chunks of 8 tokens."""
    passes = {1: (ONE, time_of(ROUTE, 3.0)), 2: (TWO, time_of(ROUTE, 4.0))}
    return StagedCosts(
        decode=DecodeGrid(slots=slots, contexts=(0, 100), passes=passes[slots]),
        prefill=ChunkGrid(chunk_tokens=8, chunks=(FIRST, FIRST, LAST), last_tokens=(2, 8), lasts=(REST, (FIRST, LAST))),
        kv_capacity_tokens=1000,
        max_users=16,
    )


@pytest.mark.parametrize("users", [1, 2, 3, 4, 7])
def test_round_equals_that_of_streams_in_a_pipeline(users: int) -> None:
    """The round takes users x the time between passes, both by events and by the closed form."""
    ended = run(passes(ROUTE, users, 40))
    by_events = (sum(ended[-users:]) - sum(ended[-11 * users : -10 * users])) / (10 * users)
    assert costs().round_s(users, 0, ()) == pytest.approx(by_events)
    assert costs().round_s(users, 0, ()) == users * cycles_between_passes(ROUTE, users).cycles


def test_users_fill_the_slots_of_passes() -> None:
    """A pass takes the same time with an empty slot. Users beyond a whole number of passes share slots in rotation."""
    two = costs(slots=2)
    assert two.round_s(1, 0, ()) == two.round_s(2, 0, ()) == TWO.latency_s
    assert two.work_s(1, 0, ()) == TWO.busy_s
    assert two.round_s(8, 0, ()) == 4 * TWO.busy_s < 8 * ONE.busy_s
    assert two.round_s(9, 0, ()) == pytest.approx(4.5 * TWO.busy_s)


def test_round_time_is_linear_between_contexts() -> None:
    assert costs().round_s(1, 50, ()) == pytest.approx(2 * ONE.latency_s)


def test_consecutive_chunks_end_as_in_the_event_run() -> None:
    """Two whole chunks take the work of the slowest stage for both, plus the remaining time of the last chunk."""
    part = PromptPart(16, 0)
    equal = replace(
        costs(), prefill=ChunkGrid(chunk_tokens=8, chunks=(FIRST,), last_tokens=(8,), lasts=((FIRST, FIRST),))
    )
    ended = run(chunks([CHUNK, CHUNK]))[-1]
    assert equal.round_s(0, 0, [part]) + equal.drain_s(part) == pytest.approx(ended)


def test_short_last_chunk_waits_for_the_one_before_it() -> None:
    """The short chunk leaves the stages after the one before it, although it needs less time in each stage."""
    short = tuple(visit._replace(busy_cycles=visit.busy_cycles / 4) for visit in CHUNK)
    part, ended = PromptPart(18, 0), run(chunks([CHUNK, CHUNK, short]))[-1]
    equal = replace(
        costs(), prefill=ChunkGrid(chunk_tokens=8, chunks=(FIRST,), last_tokens=(2, 8), lasts=(REST, (FIRST, FIRST)))
    )
    assert equal.round_s(0, 0, [part]) + equal.drain_s(part) == pytest.approx(ended, rel=0.05)


def test_prompts_in_a_round_use_the_idle_time_of_streams() -> None:
    """A chunk with one stream, whose stages are mostly idle, does not lengthen its round; with four streams it does."""
    assert costs().round_s(1, 0, [PromptPart(8, 0)]) == ONE.latency_s == 15.0
    assert costs().work_s(1, 0, [PromptPart(8, 0)]) == 5.0 + 9.0
    assert costs().round_s(4, 0, [PromptPart(8, 0)]) == costs().work_s(4, 0, [PromptPart(8, 0)]) == 4 * 5.0 + 9.0
    jobs = passes(ROUTE, 4, 40)  # below, each round gets a chunk after the fourth stream
    jobs = [job for round_index in range(40) for job in (*jobs[4 * round_index : 4 * round_index + 4], Job(CHUNK))]
    numbers = [number for number, job in enumerate(jobs) if job.route is CHUNK]
    queued: list[Job] = []
    for number, job in enumerate(jobs):
        before = number - 5 if number >= 5 else -1
        queued.append(Job(job.route, predecessor=before))
    ended = run(queued)
    round_ends = [ended[number] for number in numbers]
    assert (round_ends[-1] - round_ends[-11]) / 10 == pytest.approx(costs().round_s(4, 0, [PromptPart(8, 0)]))


def test_time_of_a_shorter_last_chunk_is_interpolated() -> None:
    plain = costs()
    assert plain.part_busy_s(PromptPart(2, 0)) == REST[0].busy_s
    assert plain.part_busy_s(PromptPart(2, 16)) == REST[1].busy_s
    assert plain.part_busy_s(PromptPart(5, 0)) == pytest.approx((REST[0].busy_s + FIRST.busy_s) / 2)
    assert plain.part_busy_s(PromptPart(18, 0)) == pytest.approx(2 * FIRST.busy_s + REST[1].busy_s)
    assert plain.part_busy_s(PromptPart(8, 16)) == LAST.busy_s
    assert plain.drain_s(PromptPart(24, 0)) == LAST.latency_s - LAST.busy_s


def test_parts_of_a_prompt_add_up_to_the_whole() -> None:
    parts = (PromptPart(8, 0, ends=False), PromptPart(8, 8, ends=False), PromptPart(5, 16))
    busy = sum(costs().part_busy_s(part) for part in parts)
    assert busy == pytest.approx(costs().part_busy_s(PromptPart(21, 0)))


@st.composite
def runs(draw: st.DrawFn) -> tuple[DecodeTimes, int, int]:
    """Draw pass times, the context of a first pass, and a number of passes that ends within the grid."""
    contexts = [0, *sorted(draw(st.lists(st.integers(2, 400), min_size=1, max_size=5, unique=True)))]
    seconds = {context: draw(st.floats(1e-4, 1e-2)) for context in contexts}
    context = draw(st.integers(0, contexts[-1] - 1))
    passes = draw(st.integers(1, contexts[-1] - context))
    return DecodeTimes(contexts, seconds.__getitem__), context, passes


@given(runs())
def test_run_is_the_sum_of_its_passes(run: tuple[DecodeTimes, int, int]) -> None:
    times, context, passes = run
    one_by_one = sum(times.pass_s(context + number) for number in range(passes))
    assert abs(times.run_s(context, passes) - one_by_one) < 1e-9


@given(runs(), st.floats(1e-6, 2.0))
def test_passes_until_a_time_are_the_fewest_that_reach_it(run: tuple[DecodeTimes, int, int], seconds: float) -> None:
    times, context, max_passes = run
    passes = times.passes_until(context, seconds, max_passes)
    assert passes == max_passes or times.run_s(context, passes) >= seconds
    assert passes == 1 or times.run_s(context, passes - 1) < seconds


def test_pass_time_is_linear_between_grid_points() -> None:
    times = DecodeTimes((0, 10, 30), {0: 1.0, 10: 2.0, 30: 6.0}.__getitem__)
    assert [times.pass_s(context) for context in (0, 5, 10, 20, 30)] == [1.0, 1.5, 2.0, 4.0, 6.0]
