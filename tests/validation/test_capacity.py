"""The one disclosed count of wafers: 70B in 16 bits on four."""

from __future__ import annotations

import pytest

from tests.validation.test_services import row
from wse.errors import DoesNotFit
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.validate.predictors.capacity import capacity_of, wafers_needed
from wse.studies.validate.predictors.services import service_request


def request(model: str, wafers: int | None = None) -> EstimateRequest:
    return make_request(EstimateRequest, model=model, wafers=wafers, mapping="auto", dtype="bfloat16")


@pytest.mark.slow
def test_70b_takes_four_wafers_with_little_padding() -> None:
    program = compile_fastest(prepare_estimate(request("llama-3.1-70b", 4))).program
    assert program.fits
    assert program.padding_fraction < 0.05
    with pytest.raises(DoesNotFit):
        compile_fastest(prepare_estimate(request("llama-3.1-70b", 3)))


def test_8b_takes_one_wafer() -> None:
    assert [each.wafers for each in wafers_needed(request("llama-3-8b"), ["production"])] == [1]


def test_models_with_stated_wafers_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wse.studies.validate.predictors.capacity.wafers_needed", lambda request: ())
    rows = [row(), row(value="446", context=""), row(chips=""), row(metric="price_out_usd_per_Mtok")]
    assert service_request(rows[0]) is not None
    assert [(c.model, c.wafers, c.dtype) for c in capacity_of(rows)] == [("llama-3.1-70b", 4, "bfloat16")]
