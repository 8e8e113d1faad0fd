"""Tests of the choice of layout versions to compile: those that are left out are not the best."""

from math import inf

import pytest

from wse.serving.goal import COST, THROUGHPUT, Goal
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts import improved_layouts
from wse.studies.estimate.layouts.ranked_layouts import LayoutRanking
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

GOALS = [
    Goal(objective=THROUGHPUT),
    Goal(users=20, objective=COST),
    Goal(users=6, replicas=1, tpot_s=1e-4, objective=COST),
]


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS, ids=["throughput", "cost", "limit"])
def test_versions_that_are_left_out_are_not_the_best(goal: Goal, monkeypatch: pytest.MonkeyPatch) -> None:
    request = make_request(EstimateRequest, model="story", mesh="16x16", prompt_len=64, new_tokens=32)
    values, compiled_counts = [], []
    for slack in (improved_layouts.SLACK, inf):
        monkeypatch.setattr(improved_layouts, "SLACK", slack)
        ranking = LayoutRanking(prepare_estimate(request), compile_fastest, goal)
        best = ranking.layouts_for(goal)[0]
        assert ranking.plan(best, goal) is not None
        values.append(best.rank(goal, None)[:2])
        compiled_counts.append(len(list(ranking._versions)))
    assert values[0] == values[1]
    assert compiled_counts[0] <= compiled_counts[1]
