"""Tests of the questions "one wafer or many" and "SRAM or streaming": the verdicts follow from the rows."""

import re
from dataclasses import replace

import pytest
from one_process import ONE_PROCESS
from plain_router import MIXTURES, mixture_spec
from tiny_model import tiny_spec

from wse.models.tensors.model_tensors import parameters_per_token, stored_bytes
from wse.reports.number_text import three_figures
from wse.reports.progress import ignore
from wse.reports.result import Report
from wse.serving.weight_streaming import bytes_per_pass
from wse.studies.compare.grid.questions import ONE_OR_MANY, SRAM_OR_STREAMING, answer
from wse.studies.compare.grid.streaming import STREAMED, users_with_room, weights_of
from wse.studies.compare.request import CompareRequest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import replace_options
from wse.tracing.query.two_traces.comparison_row import COLUMNS


@pytest.fixture(scope="module")
def comparison_request(base: EstimateRequest) -> CompareRequest:
    """Return a request for a comparison with two link latencies."""
    return CompareRequest(base=replace_options(base, new_tokens=9), link_latency_us=(5.0, 20.0))


def report_of(question: str, request: CompareRequest) -> Report:
    """Return the report of the answer to a question, computed in this process."""
    return answer(question, request, ignore, ONE_PROCESS).to_dict()


def percent(change: float) -> str:
    return f"{100 * abs(change):.1f} %"


def test_one_wafer_or_many_has_a_verdict_from_its_rows(comparison_request: CompareRequest) -> None:
    report = report_of(ONE_OR_MANY, replace(comparison_request, candidates=("region",)))
    rows = report["rows"]
    assert [row["wafers"] for row in rows] == [1, 2, 2, 4, 4]
    one, two, slow_two, four, _ = rows
    cheapest = min(rows[:2] + rows[3:4], key=lambda row: float(row["usd_per_million_tokens"]))
    first, second, order = report["verdict"]
    assert re.match(
        r"In >?\d+ % of 256 samples of the uncertain inputs \(.*\), one user is faster on 1 wafer \(region\) ", order
    )
    assert f"1 wafer (region) is fastest for one user in decode: {one['tokens_per_s_per_user']:,.0f} tokens/s" in first
    assert f"{cheapest['tokens_per_s']:,.0f} tokens/s for {cheapest['users']:,} users, " in first
    assert f"{three_figures(cheapest['usd_per_million_tokens'])} USD per million tokens (" in first
    change, slow, most = (
        row["tokens_per_s_per_user"] / one["tokens_per_s_per_user"] - 1 for row in (two, slow_two, four)
    )
    added = (two["cycles_by"]["crossing"] - one["cycles_by"]["crossing"]) / sum(one["cycles_by"].values())
    assert second.startswith(f"2 wafers instead of 1 make decode for one user {percent(change)} slower (")
    assert f", {percent(slow)} slower); 4 make it {percent(most)} slower. With 2 wafers instead of 1, " in second
    total = float(re.findall(r"([\d.]+) % more cycles", second)[0])
    first_part, *parts = (float(text) for text in re.findall(r"([+-][\d.]+) %", second.replace("\u2212", "-")))
    assert f"(contributions: words travelling between wafers +{percent(added)}" in second
    assert first_part + sum(parts) == pytest.approx(total, abs=0.3)


def test_sram_or_streaming_compares_streaming_at_each_link_rate(comparison_request: CompareRequest) -> None:
    request = replace(comparison_request, link_gb_per_s=(0.1, 150.0))
    result = answer(SRAM_OR_STREAMING, request, ignore, ONE_PROCESS)
    assert {row.link_bytes_per_s for row in result.best} == {None, 1e8, 150e9}
    assert "link" in [column.title for column in result.tables()[0].columns], "rows of each rate can be told apart"
    report = result.to_dict()
    fastest_row, best_throughput_row, *streamed = report["rows"]
    assert [row["objective"] for row in (fastest_row, best_throughput_row)] == ["latency", "throughput"]
    assert {row["mapping"] for row in streamed} == {STREAMED}
    assert {row["link_bytes_per_s"] for row in streamed} == {1e8, 150e9}
    for row in streamed:
        assert set(row) <= {*COLUMNS, "best"}
        waits = row["host_bytes_per_token"] / row["link_bytes_per_s"] / row["wafers"]
        assert row["tpot_s"] == pytest.approx(max(waits, fastest_row["tpot_s"])), (
            "one wafer has no crossings to leave out"
        )
        assert row["tokens_per_s"] == pytest.approx(row["users"] / row["tpot_s"])
        assert row["limit"].startswith("host: " if waits > fastest_row["tpot_s"] else "pass: ")
    slow = [row for row in streamed if row["link_bytes_per_s"] == 1e8]
    first, second = report["verdict"]
    assert f"at most {slow[0]['tokens_per_s_per_user']:,.0f} tokens/s at 0.1 GB/s to 1 wafer, " in first
    (needed,) = (int(n) for n in re.findall(r"a batch of (\d+) at 0.1 GB/s to 1 wafer, ", second))
    (row,) = (row for row in slow if row["users"] == needed)
    assert row["tokens_per_s"] >= best_throughput_row["tokens_per_s"] > (needed - 1) / row["tpot_s"]


def test_users_with_room_fill_all_sram_with_their_caches(comparison_request: CompareRequest) -> None:
    """The cache of a token has keys and values of all KV heads in float32; layers with a window keep fewer tokens."""
    prepared = prepare_estimate(replace(comparison_request.base, wafers=1))
    spec, context = prepared.spec, prepared.options.context
    bytes_a_token = 2 * spec.kv_head_count * spec.head_size * 4
    sram = 30 * prepared.wafer.sram_bytes_per_pe
    assert users_with_room(prepared, 2) == 2 * sram // (4 * context * bytes_a_token)
    layers = (replace(spec.layers[0], window=3), *spec.layers[1:])
    loaded = replace(prepared.loaded, spec=replace(spec, layers=layers))
    windowed = replace(prepared, loaded=loaded)
    assert users_with_room(windowed, 1) == sram // ((3 * context + 3) * bytes_a_token)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_per_token_are_all_except_the_embedding_table(tied: bool) -> None:  # noqa: FBT001
    spec = tiny_spec(tied=tied)
    weights = weights_of(spec, "float16", "float16")
    assert bytes_per_pass(weights, 1) == bytes_per_pass(weights, 64) == 2 * parameters_per_token(spec)
    table = 0 if tied else 2 * spec.vocab_size * spec.hidden_size
    assert weights.always_bytes == stored_bytes(spec, "float16", 2) - table


def test_weights_of_a_mixture_count_the_active_experts() -> None:
    spec = mixture_spec(MIXTURES["shared"], layers=3)
    weights = weights_of(spec, "float32", "float32")
    assert bytes_per_pass(weights, 1) == pytest.approx(4 * parameters_per_token(spec))
    quantised = weights_of(spec, "int8", "float32")
    assert 0.25 < quantised.expert_bytes / weights.expert_bytes < 0.5
