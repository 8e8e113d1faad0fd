"""Tests of the resources that compiling and timing use: imported modules and freed memory."""

import gc
import subprocess
import sys

import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options, wafer

from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.program.program import Program

TIMING = "wse.models.configs.config, wse.hardware.load, wse.compiler.pipeline, wse.backends.fabric.phase_cost"
UNNEEDED = {"numba", "llvmlite", "h5py", "ml_dtypes", "tokenizers", "typer", "rich", "pandas", "matplotlib", "scipy"}


def test_compiling_and_timing_import_no_more_than_they_need() -> None:
    program = f"import sys, {TIMING}; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(process.stdout.split())
    assert "wse.backends.fabric.phase_cost" in loaded
    assert not loaded & UNNEEDED


MACHINE = wafer(5, 4, 1 << 20)


def compile_and_time() -> None:
    spec = mixture_spec(MIXTURES["softmax"])
    options = region_options(dtype="float16", context=40, prompt_tokens=(6,), experts="dedicated")
    rewrites = rewrites_of(spec, options)
    choice = Choice(prefill="thin-gemm", prefill_chunk=6, head_chunk=67, rewrites=rewrites)
    fabric = Fabric(compile_choice(spec, MACHINE, SOFTWARE, options, choice), MACHINE, SOFTWARE)
    assert fabric.prefill_cost(0).traffic.hops.any()
    assert fabric.decode_cost(6).traffic.hops.any()


def count_alive() -> int:
    """Count the Programs and fabric models in memory."""
    return sum(type(item) in (Program, Fabric) for item in gc.get_objects())


@pytest.mark.slow
def test_a_program_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    before = count_alive()
    gc.disable()
    try:
        compile_and_time()
        assert count_alive() == before
    finally:
        gc.enable()
