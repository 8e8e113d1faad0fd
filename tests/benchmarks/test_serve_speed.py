"""Speed of simulated serving: ``pytest tests/benchmarks/test_serve_speed.py``.

Goal: 100,000 requests in under 30 s on one core, the compilation of the passes among them.
"""

from __future__ import annotations

import time

import pytest

import wse
from tests.benchmarks.conftest import BySize, Say

STORY = {"mesh": "24x24", "mapping": "region", "prompt_len": 64, "new_tokens": 64}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("continuous", {}),
        ("log-normal lengths, two tiers, load 0.95", {"length_cv": 1.0, "fast_share": 0.2, "load": 0.95}),
        ("static, 16 seats", {"batching": "static", "max_users": 16}),
        ("prompts on wafers of their own", {"prefill": "own"}),
    ],
)
def test_requests_a_second(name: str, options: dict[str, object], by_size: BySize, say: Say) -> None:
    model, requests = by_size(small="story", full="llama-3-8b"), by_size(small=2_000, full=100_000)
    placement = by_size(small=STORY, full={})
    began = time.process_time()
    result = wse.serve_sim(model, **placement, **options, requests=requests)
    seconds = time.process_time() - began
    assert result.served is not None
    say(f"{model}, {name}: {requests:,} requests in {seconds:.1f} s of a processor; goal for 100,000: 30 s")
