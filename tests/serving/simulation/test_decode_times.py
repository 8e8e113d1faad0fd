"""Closed forms of runs of decode passes, against passes that are added up one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wse.serving.simulation.decode_times import DecodeTimes


@st.composite
def runs(draw: st.DrawFn) -> tuple[DecodeTimes, int, int]:
    """Times, the context of a first pass, and a number of passes from there to at most the end of the grid."""
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
def test_passes_until_are_the_fewest_that_take_as_long(run: tuple[DecodeTimes, int, int], seconds: float) -> None:
    times, context, most = run
    passes = times.passes_until(context, seconds, most)
    assert passes == most or times.run_s(context, passes) >= seconds
    assert passes == 1 or times.run_s(context, passes - 1) < seconds


def test_passes_between_grid_points_are_on_a_line() -> None:
    times = DecodeTimes((0, 10, 30), {0: 1.0, 10: 2.0, 30: 6.0}.__getitem__)
    assert [times.pass_s(context) for context in (0, 5, 10, 20, 30)] == [1.0, 1.5, 2.0, 4.0, 6.0]
