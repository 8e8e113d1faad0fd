"""Tests of the kernel cache: compiled code is never older than its sources, is shared, and may be missing."""

import errno
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import wse_kernels
from tests.kernels.helpers import JIT
from wse_kernels.codegen.cache import KernelFiles, cache_home

pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled in this lane (NUMBA_DISABLE_JIT)")

HELPER = """
from wse_kernels.codegen.jit import kernel

@kernel
def helped(x):
    return x + {added}
"""

CALLER = """
from wse_kernels.codegen.jit import KERNEL_FILES, kernel
from wse_kernels.helper import helped

@kernel
def probe(x):
    return helped(x) * 2

@kernel
def write_past_the_end(x):
    x[0] = x[len(x) - x.size + 1]
"""

PRINT = """
from wse_kernels import caller
print(caller.probe(1), caller.KERNEL_FILES.folder, caller.probe(1.5), end=" ")
print(sum(caller.probe.stats.cache_misses.values()))
"""
PRINT_MISSES = """
from wse_kernels import caller
caller.probe({argument})
print(sum(caller.probe.stats.cache_misses.values()))
"""
TROUBLE = "from wse_kernels import caller; print(caller.probe(1), caller.KERNEL_FILES.trouble)"
OVERRUN = "import numpy; from wse_kernels import caller; caller.write_past_the_end(numpy.zeros(1))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a copy of the kernels, with a compiled caller and a helper in two further files."""
    copy = tmp_path / "wse_kernels"
    ignored = shutil.ignore_patterns("__pycache__", "oracle")
    shutil.copytree(Path(wse_kernels.__file__).parent, copy, ignore=ignored)
    (copy / "caller.py").write_text(CALLER)
    (copy / "helper.py").write_text(HELPER.format(added=10))
    return copy


def python(package: Path, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a process with the copied kernels, a cache next to them, and only the given numba settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    home = {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(package.parent / "cache")}
    command = [sys.executable, "-B", "-c", code]
    return subprocess.run(command, env=clean | home | settings, capture_output=True, text=True, check=False)


def test_kernels_are_loaded_by_the_next_process_and_compiled_again_after_an_edit(
    package: Path,
) -> None:
    first = python(package, PRINT).stdout.split()
    again = python(package, PRINT).stdout.split()
    (package / "helper.py").write_text(HELPER.format(added=20))
    edited = python(package, PRINT).stdout.split()
    assert [first[0], again[0], edited[0]] == ["22", "22", "42"]
    assert [first[2:], again[2:], edited[2:]] == [["23.0", "2"], ["23.0", "0"], ["43.0", "2"]]
    assert first[1] == again[1] != edited[1]
    for folder in (first[1], edited[1]):
        assert Path(folder).is_relative_to(package.parent / "cache")
        assert list(Path(folder).glob("caller.probe-serial-*.bin"))


@pytest.mark.slow
def test_cached_kernel_does_not_load_the_compiler_of_numba(package: Path) -> None:
    code = "import sys; from wse_kernels import caller; print(caller.probe(1), 'numba.np.arraymath' in sys.modules)"
    assert [python(package, code).stdout.split() for _ in range(2)] == [["22", "True"], ["22", "False"]]


@pytest.mark.slow
def test_bounds_checks_do_not_use_kernels_cached_without_them(package: Path) -> None:
    assert python(package, OVERRUN).returncode == 0
    checked = python(package, OVERRUN, NUMBA_BOUNDSCHECK="1")
    assert checked.returncode == 1
    assert "IndexError" in checked.stderr


@pytest.mark.slow
def test_equal_sources_in_another_folder_are_not_compiled_again(package: Path) -> None:
    folder = Path(python(package, PRINT).stdout.split()[1])
    compiled = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert compiled
    other = package.parent / "other" / package.name
    shutil.copytree(package, other)
    first, place, *_ = python(other, PRINT, XDG_CACHE_HOME=str(package.parent / "cache")).stdout.split()
    assert (first, Path(place)) == ("22", folder)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == compiled


@pytest.mark.slow
def test_cache_folder_of_the_user_is_used(package: Path) -> None:
    mine = package.parent / "mine"
    assert Path(python(package, PRINT, NUMBA_CACHE_DIR=str(mine)).stdout.split()[1]).parent == mine


def test_truncated_file_is_not_read(tmp_path: Path) -> None:
    files = KernelFiles(tmp_path / "made" / "for_it")
    files.write("kernel.bin", b"code")
    assert files.read("kernel.bin") == b"code"
    path = tmp_path / "made" / "for_it" / "kernel.bin"
    path.write_bytes(path.read_bytes()[:-1])
    assert files.read("kernel.bin") is None
    files.write("kernel.bin", b"code")
    assert (files.read("kernel.bin"), files.trouble) == (b"code", "")


def test_unwritable_folder_is_reported_and_kernels_are_compiled(package: Path) -> None:
    (package.parent / "cache").write_text("a file, no folder")
    value, _, trouble = python(package, TROUBLE).stdout.partition(" ")
    assert value == "22"
    assert trouble.startswith(f"{package.parent / 'cache' / 'wse'}")
    assert "compiled kernels cannot be kept: not a directory; they are compiled anew at every start" in trouble


def test_folder_that_others_may_write_to_is_neither_read_nor_written(tmp_path: Path) -> None:
    KernelFiles(tmp_path).write("kernel.bin", b"code")
    tmp_path.chmod(0o777)
    if tmp_path.stat().st_mode & 0o777 != 0o777:
        pytest.skip("this file system has no modes")
    files = KernelFiles(tmp_path)
    assert files.read("kernel.bin") is None
    files.write("other.bin", b"code")
    assert "cannot be kept: every user may write there" in files.trouble
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.bin"]


def test_full_disk_is_reported_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", no_room)
    files = KernelFiles(tmp_path)
    files.write("kernel.bin", b"code")
    assert "no space left on device" in files.trouble
    assert list(tmp_path.iterdir()) == []
    assert files.read("kernel.bin") is None


def test_a_user_without_a_home_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    files = KernelFiles(cache_home())
    files.write("kernel.bin", b"code")
    assert "the user has no home" in files.trouble
    assert files.read("kernel.bin") is None


@pytest.mark.slow
def test_concurrent_processes_keep_all_compiled_kernels(package: Path) -> None:
    """Numba's own cache may use the same file name in two processes for different types."""
    arguments = ["1", "1.5"]
    with ThreadPoolExecutor(len(arguments)) as pool:
        codes = [PRINT_MISSES.format(argument=argument) for argument in arguments]
        assert [done.stdout for done in pool.map(lambda code: python(package, code), codes)] == ["1\n"] * 2
        assert [done.stdout for done in pool.map(lambda code: python(package, code), codes)] == ["0\n"] * 2
