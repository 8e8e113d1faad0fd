"""Tests of precompilation: helper processes compile kernels before the first call, and their failures are harmless."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.helpers import JIT
from wse_kernels import precompile
from wse_kernels.codegen import jit
from wse_kernels.codegen.blocks import over_blocks
from wse_kernels.library import COMPUTE

pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled in this lane (NUMBA_DISABLE_JIT)")

NAMES = ("store", "copy", "clear")
VIEWS = {"store": 2, "copy": 1, "clear": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder of kernels, and start one helper process per kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert jit.KERNEL_FILES.folder is not None
    folder = tmp_path / "wse" / jit.KERNEL_FILES.folder.name
    monkeypatch.setattr(jit.KERNEL_FILES, "folder", folder)
    monkeypatch.setattr(jit.KERNEL_FILES, "trouble", "")
    monkeypatch.setattr(precompile, "KERNELS_PER_PROCESS", 1)
    monkeypatch.setattr(precompile, "_cores", lambda: 2)
    return folder


def calls() -> list[tuple[Any, list[Any]]]:
    """Return calls of kernels that this process has not compiled."""
    view, operands = np.zeros((1, 8, 8), np.float32), np.zeros(8, np.int64)
    return [(jit.kernel(over_blocks(COMPUTE[name])), [*[view] * VIEWS[name], operands]) for name in NAMES]


def misses(functions: list[tuple[Any, list[Any]]]) -> list[int]:
    """Return how often this process has compiled each function.

    Calling them afterwards must not compile anything.
    """
    assert all(len(function.overloads) == 1 for function, _ in functions)
    return [sum(function.stats.cache_misses.values()) for function, _ in functions]


def test_helper_process_compiles_from_the_end(folder: Path) -> None:
    reported = []

    def report(done: int, total: int, name: str) -> None:
        reported.append((done, total, name))
        end = time.monotonic() + 120
        while len(reported) == 2 and len(list(folder.glob("*.bin"))) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)

    functions = calls()
    precompile.precompile([*functions, (print, [object()])], report)
    assert reported[0] == (0, 3, "store")
    assert reported[-1] == (3, 3, "")
    assert misses(functions)[0] == 1
    assert misses(functions)[-1] == 0
    assert len(list(folder.iterdir())) == 3
    functions = calls()
    reported.clear()
    precompile.precompile(functions, report)
    assert reported == [(0, 0, "")]  # cached kernels are not counted
    assert misses(functions) == [0, 0, 0]


@pytest.mark.parametrize("start", ["", "import sys; sys.stdin.buffer.read(1); print(); sys.stdin.buffer.read(100)"])
def test_kernels_of_a_dead_helper_are_compiled_by_this_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(precompile, "_START", start)
    functions = calls()
    precompile.precompile(functions, lambda done, total, name: None)
    assert misses(functions) == [1, 1, 1]


def test_helpers_are_not_started_without_a_writable_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.parent.write_text("a file, not a folder")
    monkeypatch.setattr(precompile, "_start_process", pytest.fail)
    functions = calls()
    precompile.precompile(functions, lambda done, total, name: None)
    assert misses(functions) == [1, 1, 1]
    assert "not a directory" in jit.KERNEL_FILES.trouble


def test_ctrl_c_ends_the_helper_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start = precompile._start_process

    def start_and_record() -> Any:
        started.append(start())
        return started[-1]

    def interrupt(done: int, total: int, name: str) -> None:
        if started:
            raise KeyboardInterrupt

    monkeypatch.setattr(precompile, "_start_process", start_and_record)
    with pytest.raises(KeyboardInterrupt):
        precompile.precompile(calls(), interrupt)
    assert len(started) == 1
    assert started[0].returncode is not None
