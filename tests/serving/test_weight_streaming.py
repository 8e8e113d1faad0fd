"""Weights from outside: bytes of a pass against drawn experts, and the batch that gives a wanted rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.serving.weight_streaming import StreamingBound, Weights, distinct_experts


@pytest.mark.parametrize("batch", [1, 2, 16, 60])
def test_distinct_experts_are_those_of_drawn_tokens(batch: int) -> None:
    random = np.random.default_rng(batch)
    drawn = [len({int(e) for _ in range(batch) for e in random.choice(32, size=4, replace=False)}) for _ in range(200)]
    error = 4 * float(np.std(drawn)) / 200**0.5 + 1e-9
    assert distinct_experts(32, 4, batch) == pytest.approx(float(np.mean(drawn)), abs=error)


def test_seventy_billion_parameters_in_16_bit_at_150_gigabytes_a_second() -> None:
    """About one token a second: 150e9 / 141e9."""
    streaming = StreamingBound(weights=Weights(always_bytes=141e9), bytes_per_s=150e9)
    assert streaming.tokens_per_s(1) == pytest.approx(1.064, abs=1e-3)
    assert streaming.tokens_per_s(64) == 64 * streaming.tokens_per_s(1)


@given(
    wanted=st.floats(0.01, 1e6),
    rate=st.floats(1e9, 1e13),
    experts=st.integers(1, 300),
    share=st.floats(0.01, 1),
    pass_s=st.sampled_from([0.0, 1e-3]),
)
def test_batch_for_a_rate_is_the_smallest(
    wanted: float, rate: float, experts: int, share: float, pass_s: float
) -> None:
    active = max(1, int(experts * share))
    weights = Weights(always_bytes=1e9, expert_bytes=5e10, experts=experts, active=active)
    streaming = StreamingBound(weights=weights, bytes_per_s=rate, pass_s=pass_s)
    batch = streaming.users_for(wanted)
    assert batch is not None
    assert streaming.tokens_per_s(batch) >= wanted
    if batch > 1:
        assert streaming.tokens_per_s(batch - 1) < wanted
