"""Tests of the choice of layout versions to compile: those that are left out are not the best."""

from math import inf

import pytest

from wse.serving.goal import COST, THROUGHPUT, Goal
from wse.studies.compile import choose
from wse.studies.estimate.layouts import improved_layouts
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout
from wse.studies.estimate.layouts.ranked_layouts import LayoutRanking
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

REQUEST = make_request(
    EstimateRequest, model="story", mesh="11x11", mapping="region", schedule="baseline", prompt_len=200, new_tokens=56
)
GOALS = [
    Goal(objective=THROUGHPUT),
    Goal(users=20, objective=COST),
    Goal(users=6, replicas=1, tpot_s=1e-4, objective=COST),
]


def _perfect(layout: CompiledLayout, *_: object) -> CompiledLayout:
    """Return the layout with more room and shorter times than any version has."""
    return layout.with_numbers(max_concurrency=10**4, **dict.fromkeys(improved_layouts.DURATIONS, 1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS, ids=["throughput", "cost", "limit"])
def test_versions_that_are_left_out_are_not_the_best(goal: Goal, monkeypatch: pytest.MonkeyPatch) -> None:
    values, compiled_counts = [], []
    for leaves_out in (True, False):
        if not leaves_out:
            monkeypatch.setattr(improved_layouts, "SLACK", inf)
            monkeypatch.setattr(improved_layouts, "_guess", _perfect)
        ranking = LayoutRanking(prepare_estimate(REQUEST), choose.compile_fastest)
        best = ranking.layouts_for(goal)[0]
        assert ranking.plan(best, goal) is not None
        values.append(best.rank(goal, None)[:2])
        compiled_counts.append(len(list(ranking._versions)))
    assert values[0] == values[1]
    assert compiled_counts[0] < compiled_counts[1]


@pytest.mark.slow
def test_highest_throughput_is_not_below_that_for_a_number_of_users() -> None:
    tokens_per_s = []
    for goal in (Goal(objective=THROUGHPUT), Goal(users=7, replicas=1, objective=THROUGHPUT)):
        ranking = LayoutRanking(prepare_estimate(REQUEST), choose.compile_fastest)
        best_plan = ranking.plan(ranking.layouts_for(goal)[0], goal)
        assert best_plan is not None
        tokens_per_s.append(best_plan.point.tokens_per_s)
    assert tokens_per_s[0] >= 0.99 * tokens_per_s[1]
