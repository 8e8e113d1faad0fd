"""What an estimate says of layers in parts: how many there are, and how many wafers store all of them whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models.helpers import write_config
from wse.studies.estimate import study as cut_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options
from wse_mappings.strategies.catalogue import bundled_strategies


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> EstimateRequest:
    """A request whose wafers have too little SRAM for two layers, and enough for one and a half."""
    config = write_config(
        tmp_path_factory.mktemp("model"), max_position_embeddings=512, num_hidden_layers=3, intermediate_size=160
    )
    small = (("sram_bytes_per_pe", 9_200),)
    return make_request(
        EstimateRequest,
        model=str(config),
        mesh="4x4",
        wafers=2,
        mapping="bands",
        prompt_len=8,
        new_tokens=8,
        wafer_values=small,
    )


def test_sensitivity_has_the_wafers_of_whole_layers(request_: EstimateRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_strategies()["bands"], "block_parts", (2, 4))
    monkeypatch.setattr(cut_estimate, "changed_requests", lambda prepared: {})
    names: list[str] = []
    cut = estimate(replace(request_, sensitivity=True), on_progress=lambda done, of_all, name: names.append(name))
    whole = estimate(replace(request_, wafers=3))
    (row,) = cut.sensitivity
    assert (row.change, row.wafers) == ("no layer cut", 3)
    assert row.tokens_per_s == whole.decode.tokens_per_s
    assert whole.cuts is None
    assert cut.to_dict()["cuts"] == {"layers": 1, "between_wafers": 1, "wafers_for_whole_layers": 3}
    assert "no layer cut" in names


def test_parts_of_layers_on_a_wafer_are_none_between(
    request_: EstimateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a longer prompt every wafer has two regions, which share layers; see the module."""
    monkeypatch.setattr(bundled_strategies()["bands"], "block_parts", (2, 4))
    small = (("sram_bytes_per_pe", 9_000),)
    result = estimate(replace_options(request_, wafer_values=small, prompt_len=16, new_tokens=2))
    assert (result.cuts.layers, result.cuts.between_wafers) == (3, 1)
