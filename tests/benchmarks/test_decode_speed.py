"""Time per decoded token, compared with the time to read all weights from memory (the bound).

``pytest tests/benchmarks -s`` prints bound / time. Goals for SmolLM2-135M with random weights are
0.35 on 103x103 PEs (long-term 0.5) and 0.12 on 256x256 PEs (long-term 0.2), for each element type.
The memory bandwidth is measured before every token, so that other programs on the machine affect a
token and its bound equally.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from placements import ONE_REGION
from prefilled_engine import prefilled_engine

from tests.benchmarks.conftest import BySize, Say
from tests.benchmarks.growth import MODEL
from wse.backends.execute.step_times import read_bytes_per_s
from wse.models.tensors.model_tensors import stored_bytes
from wse.studies.options.option import make_request
from wse.studies.run.request import RunRequest

HALF_BYTES = 2


@pytest.mark.parametrize("dtype", ["float16", "int8", "int4"])
@pytest.mark.parametrize(("side", "goal"), [(103, 0.35), pytest.param(256, 0.12, marks=pytest.mark.full_size)])
def test_time_per_token_is_compared_with_reading_the_weights(
    dtype: str, side: int, goal: float, tmp_path: Path, by_size: BySize, say: Say
) -> None:
    small = tmp_path / "config.json"
    small.write_text(json.dumps(MODEL))
    model, repeats = by_size(small=str(small), full="smollm2-135m"), by_size(small=3, full=25)
    side = by_size(small=32, full=side)
    request = make_request(
        RunRequest,
        model=model,
        weights="random:1",
        prompt_ids=tuple(range(3, 19)),
        mesh=f"{side}x{side}",
        dtype=dtype,
        new_tokens=64,
        trace=None,
        **ONE_REGION,
    )
    engine, spec = prefilled_engine(request)
    weight_bytes, memory = stored_bytes(spec, dtype, HALF_BYTES), np.ones(by_size(small=2**22, full=2**26))
    engine.decode()
    found = []
    for _ in range(repeats):
        bandwidth = read_bytes_per_s(memory, 2)
        began = time.perf_counter()
        engine.decode()
        found.append((time.perf_counter() - began, weight_bytes / bandwidth))
    token_s, bound_s = np.array(found).T
    low, median, high = np.percentile(bound_s / token_s, (25, 50, 75))
    say(
        f"{Path(model).stem}, {dtype} on {side}x{side}: {1e3 * np.median(token_s):.1f} ms a token, "
        f"its {weight_bytes / 1e6:.0f} MB are read in {1e3 * np.median(bound_s):.1f} ms; "
        f"fraction {median:.2f}, {low:.2f} to {high:.2f} (goal {goal})"
    )
    assert engine.link_words().any()
