"""Compiled code is never older than its sources: the place of numba's cache follows the content of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wse_kernels
from tests.kernels.helpers import BOUNDS, JIT

pytestmark = pytest.mark.skipif(not JIT or BOUNDS, reason="the lane that compiles without bounds checks has them")

HELPER = """
from wse_kernels._jit import kernel

@kernel
def helped(x):
    return x + {added}
"""

CALLER = """
from wse_kernels._jit import config, kernel
from wse_kernels.helper import helped

@kernel
def probe(x):
    return helped(x) * 2

@kernel
def write_past_the_end(x):
    x[0] = x[len(x) - x.size + 1]
"""

PRINT = "from wse_kernels import caller; print(caller.probe(1), caller.config.CACHE_DIR, end='')"
OVERRUN = "import numpy; from wse_kernels import caller; caller.write_past_the_end(numpy.zeros(1))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels, without oracles, and a compiled caller of a compiled helper in another file."""
    copy = tmp_path / "wse_kernels"
    ignored = shutil.ignore_patterns("__pycache__", "oracle")
    shutil.copytree(Path(wse_kernels.__file__).parent, copy, ignore=ignored)
    (copy / "caller.py").write_text(CALLER)
    (copy / "helper.py").write_text(HELPER.format(added=10))
    return copy


def python(package: Path, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` with that copy and a cache beside it; numba's own settings are those given alone."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    home = {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(package.parent / "cache")}
    command = [sys.executable, "-B", "-c", code]
    return subprocess.run(command, env=clean | home | settings, capture_output=True, text=True, check=False)


def test_an_edited_helper_in_another_file_is_seen(package: Path) -> None:
    first = python(package, PRINT).stdout.split()
    again = python(package, PRINT).stdout.split()
    (package / "helper.py").write_text(HELPER.format(added=20))
    edited = python(package, PRINT).stdout.split()
    assert [first[0], again[0], edited[0]] == ["22", "22", "42"]
    assert first[1] == again[1] != edited[1]
    for folder in (first[1], edited[1]):
        assert Path(folder).is_relative_to(package.parent / "cache")
        assert list(Path(folder).rglob("*.nbc"))


@pytest.mark.slow
def test_bounds_checks_are_not_lost_to_a_cache_filled_without_them(package: Path) -> None:
    assert python(package, OVERRUN).returncode == 0
    checked = python(package, OVERRUN, NUMBA_BOUNDSCHECK="1")
    assert checked.returncode == 1
    assert "IndexError" in checked.stderr


def test_the_same_sources_in_another_place_are_not_compiled_again(package: Path) -> None:
    folder = Path(python(package, PRINT).stdout.split()[1])
    compiled = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}
    assert compiled
    other = package.parent / "other" / package.name
    shutil.copytree(package, other)
    first, place = python(other, PRINT, XDG_CACHE_HOME=str(package.parent / "cache")).stdout.split()
    assert (first, Path(place)) == ("22", folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")} == compiled


def test_a_cache_folder_that_the_user_names_is_kept(package: Path) -> None:
    mine = str(package.parent / "mine")
    assert python(package, PRINT, NUMBA_CACHE_DIR=mine).stdout.split()[1] == mine
