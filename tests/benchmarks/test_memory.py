"""Memory and time of loading weights; ``pytest tests/benchmarks/test_memory.py`` prints them.

Goals: the host's peak grows by less than 1.3 times the emulated SRAM in use, and 135 million parameters are on
120x120 PEs (float32: 146x146) in under ten seconds. tests/execute/test_memory.py asserts the first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from store_memory import measured, write_llama

from tests.benchmarks.conftest import Say

MEMORY_GOAL = 1.3
TIME_GOAL_S = 10.0


def summary(results: dict[str, Any]) -> str:
    sram = results["sram_bytes"]
    return (
        f"SRAM {sram / 2**20:,.0f} MiB, peak while stored {results['stored_bytes'] / sram:.2f} (goal {MEMORY_GOAL}), "
        f"with a run {results['run_bytes'] / sram:.2f} of it; stored in {results['store_s']:.1f} s "
        f"({results['store_cpu_s']:.1f} s of the processor; goal {TIME_GOAL_S:.0f} s)"
    )


@pytest.mark.full_size
@pytest.mark.parametrize(
    ("stored", "dtype", "mesh"), [(np.float32, "float32", "146x146"), (ml_dtypes.bfloat16, "bfloat16", "120x120")]
)
def test_135_million_parameters(tmp_path: Path, stored: Any, dtype: str, mesh: str, say: Say) -> None:
    model = write_llama(tmp_path / "model", hidden=576, layers=27, vocab=49152, ffn=1536, dtype=stored)
    results = measured(model, mesh, dtype, tokens=2)
    say(f"135M {dtype} on {mesh}: {summary(results)}")


def test_stories15m(beside: Path, say: Say) -> None:
    results = measured(beside / "models" / "stories15m", "48x48", "float32", tokens=2)
    say(f"stories15m: {summary(results)}")
