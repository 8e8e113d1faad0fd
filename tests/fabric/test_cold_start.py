"""Timing a model starts without the libraries that it does not need; each costs a noticeable part of a second."""

from __future__ import annotations

import subprocess
import sys

TIMING = "wse.models.configs.config, wse.hardware.load, wse.compiler.pipeline, wse.backends.fabric.phase_cost"
UNNEEDED = {"numba", "llvmlite", "h5py", "ml_dtypes", "tokenizers", "typer", "rich", "pandas", "matplotlib", "scipy"}


def test_compiling_and_timing_import_no_more_than_they_need() -> None:
    program = f"import sys, {TIMING}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(told.stdout.split())
    assert "wse.backends.fabric.phase_cost" in loaded
    assert not loaded & UNNEEDED
