"""Properties of rankings: the first machine is not beaten, and each figure in a sentence is one of the table."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.comparison.compare.synthetic import made_row
from wse.reports.number_text import three_figures
from wse.serving.goal import COST, Goal
from wse.studies.compare.machine import GPU, WAFER
from wse.studies.compare.plan.result import PlannedRow
from wse.studies.compare.plan.rows import rank
from wse.studies.compare.plan.verdict import plan_verdict

MACHINES = st.lists(
    st.tuples(st.sampled_from([WAFER, GPU]), st.floats(1e-4, 0.05), st.floats(0.5, 100)), min_size=1, max_size=6
)
"""Kind, seconds of a pass, and price in USD per hour of synthetic machines."""
GOALS = st.builds(
    Goal,
    users=st.integers(1, 40),
    replicas=st.none() | st.integers(1, 3),
    tpot_s=st.none() | st.floats(1e-3, 0.1),
    objective=st.just(COST),
)


def ranked(machines: list[tuple[str, float, float]], goal: Goal) -> list[PlannedRow]:
    rows = [made_row(kind, pass_s, goal, usd_per_hour=usd) for kind, pass_s, usd in machines]
    return sorted(rows, key=lambda row: rank(row, goal))


@settings(max_examples=60, deadline=None)
@given(machines=MACHINES, goal=GOALS)
def test_no_other_machine_is_cheaper_than_the_first_or_nearer_to_the_limits(
    machines: list[tuple[str, float, float]], goal: Goal
) -> None:
    rows = ranked(machines, goal)
    keeping = [row for row in rows if row.keeps]
    if keeping:
        assert rows[0].keeps
        costs = [row.usd_per_hour / 3600 / row.tokens_per_s * 1e6 for row in keeping]
        assert costs[0] == pytest.approx(min(costs))
    elif all(row.users == goal.users for row in rows):
        assert rows[0].excess == min(row.excess for row in rows)


@settings(max_examples=60, deadline=None)
@given(machines=MACHINES, goal=GOALS)
def test_figures_in_sentences_are_figures_of_the_table(machines: list[tuple[str, float, float]], goal: Goal) -> None:
    rows = ranked(machines, goal)
    sentences = " ".join(plan_verdict(rows, goal, [(rows[0].prompt_len, rows[0].new_tokens)], []))
    for pattern, field in (
        (r"([\d.,]+) USD per million tokens", "usd_per_million_tokens"),
        (r"([\d.,]+) tokens/s per user", "tokens_per_s_per_user"),
    ):
        assert {*re.findall(pattern, sentences)} <= {three_figures(getattr(row, field)) for row in rows}
    if rows[0].keeps:
        assert f"{three_figures(rows[0].usd_per_million_tokens)} USD per million tokens" in sentences
        assert f"{three_figures(rows[0].tokens_per_s_per_user)} tokens/s per user" in sentences
