"""Storing weights takes little more memory of the host than the emulated SRAM itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from store_memory import STATUS, measured, write_llama

LIMIT = 1.3


@pytest.mark.skipif(not STATUS.exists(), reason="the peak of resident memory is read from Linux")
@pytest.mark.parametrize(("held", "dtype"), [(np.float32, "float32"), (ml_dtypes.bfloat16, "float32")])
def test_peak_memory_is_below_1_3_of_the_sram_in_use(tmp_path: Path, held: Any, dtype: str) -> None:
    model = write_llama(tmp_path / "model", hidden=512, layers=6, vocab=16000, ffn=1536, dtype=held)
    found = measured(model, "64x64", dtype)
    assert found["sram_bytes"] > 110e6
    ratio = found["stored_bytes"] / found["sram_bytes"]
    assert 0.9 < ratio < LIMIT, f"expected below {LIMIT}, measured {ratio:.2f}: {found}"
