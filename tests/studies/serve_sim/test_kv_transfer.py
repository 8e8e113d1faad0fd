"""Tests of what a separate prefill machine sends for a prompt: its KV cache, and states of linear attention."""

import json
from pathlib import Path
from typing import Any

import pytest

import wse

FAMILY = Path(__file__).parents[2] / "data" / "families" / "qwen3_next.json"
PROMPT_TOKENS, NEW_TOKENS = 40, 8
REQUESTS: dict[str, Any] = {
    "prompt_len": PROMPT_TOKENS,
    "new_tokens": NEW_TOKENS,
    "requests": 20,
    "arrivals": "constant",
    "prefill": "own",
    "rate": 1.0,
}
"""Requests that do not overlap."""
WAFERS: dict[str, Any] = {"mesh": "24x24", "mapping": "region", "schedule": "baseline"}
GPUS: dict[str, Any] = {"gpu": "h100", "prefill_gpus": 2}
KV_VALUES = 1 * 2 * 2 * 16
"""Values that a token adds to the KV cache of the layer with full attention: keys and values of 2 heads of 16."""
STATE_VALUES, CONVOLUTION_VALUES = 3 * 4 * 10 * 12, 3 * 2 * (2 * 2 * 10 + 4 * 12)
"""3 layers have 4 states of 10 x 12 in float32, and the last 2 inputs of a convolution of 88 channels."""


@pytest.fixture(scope="module")
def hybrid_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a configuration with full attention in one of four layers, and linear in the others."""
    folder = tmp_path_factory.mktemp("hybrid")
    (folder / "config.json").write_text(json.dumps(json.loads(FAMILY.read_text())["config"]))
    return folder


@pytest.mark.parametrize(
    ("machines", "element_bytes", "cache_copies"),
    [
        (WAFERS, 4, 1),
        (WAFERS | {"prefill_mesh": "24x24"}, 4, 1),
        (WAFERS | {"prefill_gpu": "h100", "prefill_gpus": 4}, 2, 1),
        (GPUS | {"prefill_gpus": 4}, 2, 2),
    ],
    ids=["wafers", "same wafer", "gpus for wafers", "gpus"],
)
def test_states_are_sent_once_with_the_kv_cache(
    hybrid_model: Path, machines: dict[str, Any], element_bytes: int, cache_copies: int
) -> None:
    """Four GPUs of one model store each of its two KV heads twice, but one copy of the states."""
    transfer = wse.serve_sim(hybrid_model, **REQUESTS, **machines).kv_transfer
    assert transfer.bytes_per_token == cache_copies * KV_VALUES * element_bytes
    assert transfer.bytes_per_state == 4 * STATE_VALUES + CONVOLUTION_VALUES * element_bytes
    prompt_bytes = PROMPT_TOKENS * transfer.bytes_per_token + transfer.bytes_per_state
    assert transfer.prompt_s == pytest.approx(transfer.latency_s + prompt_bytes / transfer.bytes_per_s)


def test_decoding_starts_when_cache_and_states_have_arrived(hybrid_model: Path) -> None:
    """The first two tokens of an answer are further apart by the transfer, whose time is computed by hand here."""
    links = ({"kv_bandwidth": 0.001, "kv_latency": 70.0}, {"kv_bandwidth": 1e6, "kv_latency": 0.0})
    slow, fast = (wse.serve_sim(hybrid_model, **REQUESTS, **WAFERS, **link).served.all for link in links)
    sent_bytes = 4 * (PROMPT_TOKENS * KV_VALUES + STATE_VALUES + CONVOLUTION_VALUES)
    transfer_s, fast_s = sent_bytes / 1e6 + 70e-6, sent_bytes / 1e15
    assert transfer_s == pytest.approx(18.182e-3, rel=1e-9)
    between_tokens_s = (slow.tpot.mean - fast.tpot.mean) * (NEW_TOKENS - 1)
    assert between_tokens_s == pytest.approx(transfer_s - fast_s, rel=1e-3)
    assert slow.ttft.mean == pytest.approx(fast.ttft.mean)
