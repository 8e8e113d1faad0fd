"""Memory and time of loading weights; ``pytest tests/benchmarks/test_memory.py -s`` prints them.

Goals: the host's peak grows by less than 1.3 times the emulated SRAM in use, and 135 million parameters are on
120x120 PEs (float32: 146x146) in under ten seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from store_memory import measured, write_llama

MEMORY_GOAL = 1.3
TIME_GOAL_S = 10.0


def show(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n    {line}")  # noqa: T201


def told(found: dict[str, Any]) -> str:
    sram = found["sram_bytes"]
    return (
        f"SRAM {sram / 2**20:,.0f} MiB, peak while stored {found['stored_bytes'] / sram:.2f}, "
        f"with a run {found['run_bytes'] / sram:.2f} of it; stored in {found['store_s']:.1f} s "
        f"({found['store_cpu_s']:.1f} s of the processor)"
    )


@pytest.mark.parametrize(
    ("held", "dtype", "mesh"), [(np.float32, "float32", "146x146"), (ml_dtypes.bfloat16, "bfloat16", "120x120")]
)
def test_135_million_parameters(
    tmp_path: Path, held: Any, dtype: str, mesh: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_llama(tmp_path / "model", hidden=576, layers=27, vocab=49152, ffn=1536, dtype=held)
    found = measured(model, mesh, dtype, tokens=2)
    show(capsys, f"135M {dtype} on {mesh}: {told(found)}")
    assert found["stored_bytes"] < MEMORY_GOAL * found["sram_bytes"]
    assert found["store_s"] < TIME_GOAL_S


def test_stories15m(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(shared / "models" / "stories15m", "48x48", "float32", tokens=2)
    show(capsys, f"stories15m: {told(found)}")
    assert found["stored_bytes"] < MEMORY_GOAL * found["sram_bytes"]
