"""The choice of steps that are spread over the cores, which changes no bit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session import Session, session

from tests.kernels.helpers import JIT
from wse_kernels import library
from wse_kernels.codegen.jit import build_of
from wse_kernels.library import MIN_CORE_S, STORING, TRIALS, WAKES, CompiledKernel, compiled_kernel, parallel_core_s

PROMPT = (1, 410, 469, 347)


def run(shared: Path, mesh: tuple[int, int]) -> Session:
    return session(shared / "models" / "stories260k", mesh, prompt=PROMPT, new_tokens=4, logits=True)


def spread(monkeypatch: pytest.MonkeyPatch, threshold_s: float) -> None:
    """Have steps that take one core longer than that spread over all."""
    monkeypatch.setattr(library, "MIN_CORE_S", threshold_s)
    monkeypatch.setattr(library, "parallel_core_s", lambda: 0.0)


def builds(run: Session) -> set[bool]:
    """Whether kernels of a decoded token are builds for all cores."""
    calls = run.engine._binder._bind(run.program.decode, run.program.cache_slots(5)).calls
    return {build_of(function)[1] for function, _ in calls if hasattr(function, "py_func")}


def test_a_step_is_spread_where_one_core_would_take_longer_than_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled_kernel("add")
    for measured_s, threshold_s in ((0.0, MIN_CORE_S), (3 * MIN_CORE_S, 3 * MIN_CORE_S)):
        monkeypatch.setattr(library, "parallel_core_s", lambda measured_s=measured_s: measured_s)
        assert kernel.for_time(threshold_s) is kernel.serial
        assert kernel.for_time(1.01 * threshold_s) is kernel.parallel


@pytest.mark.skipif(not JIT, reason="interpreted kernels wake nobody")
def test_the_threshold_goes_by_what_it_takes_to_wake_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the clock stands still it takes nothing; else so many times what most trials take, however long a few."""
    monkeypatch.setattr(library, "THREADS", 2)
    few = [1.0] * (TRIALS // 3)
    for trials_s, expected_s in (([0.0] * TRIALS, 0.0), (few + [1e-6] * (TRIALS - len(few)), WAKES * 1e-6)):
        ticks = itertools.accumulate(trials_s, initial=0.0)
        monkeypatch.setattr(library.time, "perf_counter", lambda ticks=ticks: next(ticks))
        assert parallel_core_s.__wrapped__() == pytest.approx(expected_s)


@pytest.mark.skipif(not JIT, reason="interpreted kernels have one build")
def test_short_steps_of_a_token_run_on_one_core(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = run(shared, (16, 16))
    assert builds(small) == {False}
    spread(monkeypatch, 0.0)
    assert True in builds(small)


@pytest.mark.skipif(not JIT, reason="interpreted kernels have one build")
def test_kernels_that_store_weights_have_one_build_as_threads_of_the_caller_share_them() -> None:
    found = {name: compiled_kernel(name) for name in (*STORING, "along_rows", "gemv")}
    assert {name for name, kernel in found.items() if kernel.parallel is kernel.serial} == set(STORING)


SPREAD = ("gemv", "matmul", "activate_share", "attention_values", "along_rows", "along_columns")
"""Kernels of each kind of loop over what cores share: blocks of PEs, rows, columns."""


@pytest.mark.slow
@pytest.mark.skipif(library.THREADS < 2, reason="numba has one thread")
def test_tokens_on_all_cores_are_those_on_one_bit_for_bit(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, kernels = [], {id(compiled_kernel(name)) for name in SPREAD}
    for build in ("serial", "parallel"):
        called = set[int]()

        def for_time(kernel: CompiledKernel, core_s: float, build: str = build, called: set[int] = called) -> Any:
            called.add(id(kernel))
            return getattr(kernel, build) if id(kernel) in kernels else kernel.serial

        monkeypatch.setattr(CompiledKernel, "for_time", for_time)
        session = run(shared, (16, 16))
        session.greedy(4)
        assert kernels <= called
        logits.append(session.engine.logits)
    np.testing.assert_array_equal(*logits)
