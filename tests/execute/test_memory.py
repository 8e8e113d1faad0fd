"""Storing weights takes little more memory of the host than the emulated SRAM itself."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import pytest
from store_memory import STATUS, measured, write_llama

LIMIT = 1.3


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the peak of resident memory is read from Linux")
def test_peak_memory_is_below_1_3_of_the_sram_in_use(tmp_path: Path) -> None:
    """Of weights that are held narrower than they are stored."""
    model = write_llama(tmp_path / "model", hidden=512, layers=6, vocab=16000, ffn=1536, dtype=ml_dtypes.bfloat16)
    found = measured(model, "64x64", "float32")
    assert found["sram_bytes"] > 110e6
    ratio = found["stored_bytes"] / found["sram_bytes"]
    assert 0.9 < ratio < LIMIT, f"expected below {LIMIT}, measured {ratio:.2f}: {found}"
