"""Tests of ``wse serve-sim --kv-tiers``: capacities, links and cost of the tiers, and the prefill that they save."""

from dataclasses import replace
from typing import Any

import pytest

import wse
from wse.errors import BadInput
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.result import DraftRegionResult
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.serve_sim.machines.kv_tiers import spare_kv_tokens, storage_bytes_per_pe
from wse.studies.serve_sim.result import ServeResult

STORY: dict[str, Any] = {
    "model": "story",
    "mesh": "40x40",
    "region": "24x24",
    "mapping": "region",
    "schedule": "baseline",
    "prompt_len": 64,
    "new_tokens": 64,
    "requests": 1_000,
    "prefix_tokens": 48,
    "prefixes": 300,
    "rate": 300.0,
}
"""300 prefixes of 48 tokens, of which the KV cache stores about two thirds."""
KV_BYTES = 1_280
"""Keys and values of a token: 5 layers of 64 features each, in float16."""


@pytest.fixture(scope="module")
def results() -> tuple[ServeResult, ServeResult]:
    """Return the same requests simulated with the KV cache only, and with all tiers."""
    return wse.serve_sim(**STORY, prefix_cache=True), wse.serve_sim(**STORY, kv_tiers="sram,wafer,host")


def test_capacities_and_links_follow_from_layout_and_preset(results: tuple[ServeResult, ServeResult]) -> None:
    sram, wafer, host = results[1].kv_tiers or ()
    bytes_per_pe = wafer.capacity_bytes / (40 * 40)
    assert 40_000 < bytes_per_pe < 49_152
    assert sram.capacity_tokens == int((40 * 40 - 24 * 24) * bytes_per_pe / KV_BYTES)
    assert wafer.capacity_tokens == int(wafer.capacity_bytes / KV_BYTES)
    assert host.capacity_tokens == int(host.capacity_bytes / KV_BYTES)
    assert (wafer.bytes_per_s, wafer.latency_s, wafer.grade) == (150e9, 5e-6, "V")
    assert (host.bytes_per_s, host.latency_s, host.bytes_per_s_range) == (150e9, 250e-6, (11.4e9, 150e9))
    assert sram.bytes_per_s == pytest.approx(40 * 4 * 0.8889 * 875e6)
    assert sram.latency_s == pytest.approx(80 * 2 / 875e6)


def test_tiers_store_the_prefixes_evicted_from_the_kv_cache(results: tuple[ServeResult, ServeResult]) -> None:
    plain, tiered = (result.served.prefix_cache for result in results)
    for use, names in ((plain, ()), (tiered, ("sram", "wafer", "host"))):
        assert tuple(use.token_shares) == ("cache", *names, "recomputed", "new")
        assert sum(use.token_shares.values()) == pytest.approx(1)
        assert use.saved_share == pytest.approx(sum(use.token_shares[name] for name in ("cache", *names)))
    assert plain.token_shares["recomputed"] > 0.1
    assert tiered.token_shares["recomputed"] < 0.02
    assert tiered.token_shares["sram"] > 0.1
    assert tiered.token_shares["new"] == pytest.approx(plain.token_shares["new"], abs=0.02)
    assert results[1].served.all.ttft.mean <= 1.01 * results[0].served.all.ttft.mean
    assert results[1].load.capacity_requests_per_s > results[0].load.capacity_requests_per_s


def test_no_intervals_with_a_prefix_cache(results: tuple[ServeResult, ServeResult]) -> None:
    assert [result.ranges for result in results] == [None, None]


def test_spare_room_of_a_transposed_layout_excludes_stages_and_drafts() -> None:
    """A transposed Program uses 24 x 24 of 60 x 24 PEs. Optionally a draft model is on rows 30 to 59 of the wafer."""
    placement = {key: STORY[key] for key in ("model", "region", "mapping", "schedule", "prompt_len", "new_tokens")}
    prepared = prepare_estimate(make_request(EstimateRequest, **placement, mesh="24x60"))
    program = replace(compile_fastest(prepared).program, is_transposed=True)
    draft = DraftRegionResult(wafer=0, row=30, col=0, rows=30, cols=24)
    for region, pes in ((None, 24 * 36), (draft, 24 * 6)):
        assert spare_kv_tokens(program, region, KV_BYTES) == pes * storage_bytes_per_pe(program) // KV_BYTES


@pytest.mark.slow
def test_wafers_that_store_kv_caches_are_counted_in_the_cost() -> None:
    few = STORY | {"requests": 300}
    plain, tiered, three = (
        wse.serve_sim(**few, **options)
        for options in ({"prefix_cache": True}, {"kv_tiers": "wafer"}, {"kv_tiers": "wafer", "kv_wafers": 3})
    )
    assert (plain.machine.wafers, tiered.machine.wafers, three.machine.wafers) == (1, 2, 4)
    assert (plain.machine.systems, tiered.machine.systems) == ("1 wse3 wafer", "2 wse3 wafers (1 only for KV caches)")
    assert tiered.served.usd_per_hour.value == pytest.approx(2 * plain.served.usd_per_hour.value)
    assert three.kv_tiers[0].capacity_bytes == 3 * tiered.kv_tiers[0].capacity_bytes
    assert three.kv_tiers[0].bytes_per_s == tiered.kv_tiers[0].bytes_per_s  # each load is from one wafer


GPUS: dict[str, Any] = {
    "model": "llama-3-8b",
    "gpu": "h100",
    "prompt_len": 4_000,
    "new_tokens": 20,
    "requests": 500,
    "prefix_tokens": 3_500,
    "prefixes": 200,
    "rate": 3.0,
}


@pytest.mark.slow
def test_gpus_load_prefixes_from_host_memory() -> None:
    cached, tiered = wse.serve_sim(**GPUS, prefix_cache=True), wse.serve_sim(**GPUS, kv_tiers="host")
    (host,) = tiered.kv_tiers
    assert (host.bytes_per_s, host.capacity_bytes) == (64e9, 256e9)
    assert tiered.served.prefix_cache.token_shares["host"] > 0.05
    assert tiered.served.prefix_cache.saved_share > cached.served.prefix_cache.saved_share + 0.05
    assert tiered.served.all.ttft.mean < cached.served.all.ttft.mean
    with pytest.raises(BadInput, match="only wafers have the tier sram"):
        wse.serve_sim(**GPUS, kv_tiers="sram,host")


LINEAR = GPUS | {"model": "qwen3-next-80b-a3b", "gpu": "h200", "gpus": 2, "prefixes": 50}


def test_states_of_linear_attention_are_kept_and_parked_with_prefixes() -> None:
    """Each of 36 layers has 32 heads with 128 x 128 float32 numbers, and 3 inputs of a convolution of 8,192."""
    result = wse.serve_sim(**LINEAR, kv_tiers="host", kv_host_memory="100GB")
    (host,) = result.kv_tiers or ()
    state_bytes = 36 * (4 * 32 * 128 * 128 + 2 * 3 * 8_192)
    assert host.bytes_per_state == state_bytes
    assert host.simulated_tier.s_per_state == state_bytes / host.bytes_per_s
    assert host.simulated_tier.state_tokens * host.bytes_per_token == pytest.approx(state_bytes, rel=1e-3)
    assert result.served.prefix_cache.hits == 450  # all but the first of each prefix
