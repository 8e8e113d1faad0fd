"""What a pass over several tokens of one user takes, beside a generated one."""

from __future__ import annotations

import pytest
from session import SOFTWARE

from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options

REQUEST = make_request(
    EstimateRequest,
    model="story",
    wafer="wse2",
    mesh="24x24",
    mapping="region",
    prompt_len=16,
    new_tokens=16,
    software="tuned",
    verify_tokens=4,
)


def test_a_pass_is_that_of_the_program_after_half_of_the_answer() -> None:
    result, prepared = estimate(REQUEST), prepare_estimate(REQUEST)
    fabric = Fabric(compile_fastest(prepared).program, prepared.wafer, SOFTWARE)
    verify = result.verify
    assert (verify.tokens, verify.after_tokens) == (4, 24)
    assert verify.cycles == pytest.approx(fabric.verify_cost(24).cycles)
    assert verify.cycles == pytest.approx(sum(verify.cycles_by.values()))
    assert verify.s == pytest.approx(verify.cycles / result.wafer.clock_hz)
    assert verify.ratio_to_decode == pytest.approx(verify.cycles / fabric.decode_cost(24).cycles)
    assert verify.cycles_by["host"] < 0.01 * verify.cycles  # nobody waits for the ids
    assert result.grades["verify.s"].grade == result.grades["decode.tokens_per_s"].grade


def test_a_pass_in_the_last_tokens_of_the_context_ends_with_it() -> None:
    verify = estimate(replace_options(REQUEST, verify_tokens=16)).verify
    assert verify.after_tokens == 16


def test_rewrites_are_those_that_pay_in_the_pass() -> None:
    """With four tokens there are four times as many exponentials; there is no shift of the cache to hide."""
    result = estimate(REQUEST)
    used = {one.name for one in result.verify.rewrites if one.used}
    assert "early-shift" not in used
    assert all(one.saved_cycles is not None and one.saved_cycles > 0 for one in result.verify.rewrites if one.used)
    baseline = estimate(replace_options(REQUEST, schedule=BASELINE)).verify
    assert baseline.rewrites is None
    assert result.verify.cycles < baseline.cycles
