"""The verdicts follow from their rows, and streamed weights from the model's shape."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from plain_router import MIXTURES, mixture_spec
from tiny_model import tiny_spec

from tests.models.helpers import write_config, write_model
from wse.errors import DoesNotFit, UnknownName
from wse.hardware.load import load_wafer
from wse.models.counts import parameters_per_token
from wse.models.tensors.model_tensors import stored_bytes
from wse.request.compare_request import CompareRequest
from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import prepare_estimate
from wse.serving.weight_streaming import bytes_per_pass
from wse.studies.compare.questions import ONE_OR_MANY, PIPELINE_OR_TENSOR, SRAM_OR_STREAMING, answer
from wse.studies.compare.rows import COLUMNS
from wse.studies.compare.streaming import STREAMED, users_with_room, weights_of


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> CompareRequest:
    folder = tmp_path_factory.mktemp("four")
    write_model(folder)
    write_config(folder, num_hidden_layers=4)
    base = EstimateRequest(model=str(folder / "config.json"), mesh="6x5", prompt_len=5, new_tokens=9)
    return CompareRequest(base=base, link_latency_us=(5.0, 20.0))


def test_one_wafer_or_many(asked: CompareRequest) -> None:
    report = answer(ONE_OR_MANY, replace(asked, mappings=("region",)))
    rows = [row for row in report["rows"] if "reason" not in row]
    assert [row["wafers"] for row in rows] == [1, 2, 2, 4, 4]
    most = max(rows, key=lambda row: float(row["tokens_per_s"]))["wafers"]
    least = min(rows, key=lambda row: float(row["usd_per_million_tokens"]))["wafers"]
    assert f"A user alone is fastest on 1 wafer, all users together on {most} wafer" in report["verdict"][0]
    assert f"a token is cheapest on {least} wafer" in report["verdict"][0]
    assert len(report["verdict"]) == 1 + len(rows)
    for row, sentence in zip(rows[1:], report["verdict"][2:], strict=True):
        change = 100 * (row["tokens_per_s_per_user"] / rows[0]["tokens_per_s_per_user"] - 1)
        assert f"({change:+.1f} %; {100 * row['crossing_fraction']:.1f} % of its time in crossings)" in sentence
        assert f"({row['tokens_per_s'] / rows[0]['tokens_per_s']:.2f} times)" in sentence
        assert sentence.startswith(f"{row['wafers']} wafers, links of 150 GB/s and {row['link_latency_s'] * 1e6:g} µs")


def test_a_model_that_does_not_fit_one_wafer(asked: CompareRequest) -> None:
    small = replace(asked, base=replace(asked.base, wafer="wse3", mesh="1x1", software="academic"))
    with pytest.raises(DoesNotFit, match=r"--question one-wafer-or-many: .* takes \d wafers; ask of a model that fits"):
        answer(ONE_OR_MANY, small)


def test_mappings_on_the_same_wafers_are_ranked(asked: CompareRequest) -> None:
    report = answer(PIPELINE_OR_TENSOR, replace(asked, mappings=("region", "pipeline"), wafers=(1, 2)))
    assert len(report["verdict"]) == 2
    for sentence, wait in zip(report["verdict"], (5, 20), strict=True):
        rows = [row for row in report["rows"] if row.get("link_latency_s") == pytest.approx(wait * 1e-6)]
        best = max(rows, key=lambda row: float(row["tokens_per_s_per_user"]))
        assert f"{wait} µs: for a user alone {best['mapping']} is best with " in sentence
        best = max(rows, key=lambda row: float(row["tokens_per_s"]))
        assert f"; for all users {best['mapping']} is best with " in sentence
    report = answer(PIPELINE_OR_TENSOR, replace(asked, mappings=("region",), wafers=(2,)))
    assert report["verdict"] == ["There is no number of wafers above one on which two of the mappings can be compared."]


def test_sram_or_streaming(asked: CompareRequest) -> None:
    request = replace(asked, link_gb_per_s=(0.1, 150.0))
    report = answer(SRAM_OR_STREAMING, request)
    held, *streamed = report["rows"]
    assert held["mapping"] == "region"
    assert {row["mapping"] for row in streamed} == {STREAMED}
    assert {row["link_bytes_per_s"] for row in streamed} == {1e8, 150e9}
    for row in streamed:
        assert set(row) <= set(COLUMNS)
        waits = row["host_bytes_per_token"] / row["link_bytes_per_s"] / row["wafers"]
        assert row["tpot_s"] == max(waits, held["tpot_s"]), "one wafer has no crossings to leave out"
        assert row["tokens_per_s"] == pytest.approx(row["users"] / row["tpot_s"])
        assert row["limit"].startswith("host: " if waits > held["tpot_s"] else "pass: ")
    slow = [row for row in streamed if row["link_bytes_per_s"] == 1e8]
    (needed,) = (int(n) for n in re.findall(r"take a batch of (\d+) streamed", report["verdict"][0]))
    (row,) = (row for row in slow if row["users"] == needed)
    assert row["tokens_per_s"] >= held["tokens_per_s"] > (needed - 1) / row["tpot_s"]


def test_no_such_question(asked: CompareRequest) -> None:
    with pytest.raises(UnknownName, match=r"--question: unknown question 'why': .*known: one-wafer-or-many"):
        answer("why", asked)


def test_caches_of_users_in_all_sram(asked: CompareRequest) -> None:
    """Keys and values of 2 heads of 8 features a layer in float32, unless a window keeps fewer tokens."""
    prepared = prepare_estimate(replace(asked.base, wafers=1))
    spec, context = prepared.spec, prepared.options.context
    bytes_a_token = 2 * spec.kv_head_count * spec.head_size * 4
    sram = 30 * prepared.wafer.sram_bytes_per_pe
    assert users_with_room(prepared, 2) == 2 * sram // (4 * context * bytes_a_token)
    layers = (replace(spec.layers[0], window=3), *spec.layers[1:])
    loaded = replace(prepared.loaded, spec=replace(spec, layers=layers))
    windowed = replace(prepared, loaded=loaded)
    assert users_with_room(windowed, 1) == sram // ((3 * context + 3) * bytes_a_token)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_a_token_uses_are_all_but_rows_of_tables(tied: bool) -> None:  # noqa: FBT001
    spec = tiny_spec(tied=tied)
    weights = weights_of(spec, "float16", "float16")
    assert bytes_per_pass(weights, 1) == bytes_per_pass(weights, 64) == 2 * parameters_per_token(spec)
    table = 0 if tied else 2 * spec.vocab_size * spec.hidden_size
    assert weights.always_bytes == stored_bytes(spec, "float16", 2) - table


def test_weights_of_a_mixture() -> None:
    spec = mixture_spec(MIXTURES["shared"], layers=3)
    weights = weights_of(spec, "float32", "float32")
    assert bytes_per_pass(weights, 1) == pytest.approx(4 * parameters_per_token(spec))
    quantised = weights_of(spec, "int8", "float32")
    assert 0.25 < quantised.expert_bytes / weights.expert_bytes < 0.5


def test_the_rate_is_the_wafers_own_unless_given(asked: CompareRequest) -> None:
    report = answer(SRAM_OR_STREAMING, replace(asked, link_latency_us=None))
    assert {row["link_bytes_per_s"] for row in report["rows"] if row["mapping"] == STREAMED} == {
        load_wafer("wse3").host_bytes_per_s
    }
