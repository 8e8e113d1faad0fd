"""Passes over several tokens of one user in traces: a phase of their own, with all that they cost and send."""

from __future__ import annotations

from pathlib import Path

import pytest

from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options
from wse_traces import open_trace, problems
from wse_traces.schema import PHASES

VERIFY = PHASES.index("verify")
TOKENS = 3


@pytest.mark.slow
def test_estimates_pass_is_the_last_one_of_its_trace(tmp_path: Path) -> None:
    request = make_request(
        EstimateRequest, model="story", mesh="24x24", prompt_len=16, new_tokens=8, trace=tmp_path / "e.h5"
    )
    result = estimate(replace_options(request, verify_tokens=TOKENS))
    assert problems(tmp_path / "e.h5") == []
    with open_trace(tmp_path / "e.h5") as trace:
        schedules = trace.column("passes/schedule")
        phases = trace.column("schedules/phase")[schedules].tolist()
        assert (phases.count(VERIFY), phases[-1]) == (1, VERIFY)
        assert trace.column("schedules/cycles")[schedules[-1]] == int(result.verify.cycles)
        assert len(phases) - 1 not in trace.column("tokens/pass")
