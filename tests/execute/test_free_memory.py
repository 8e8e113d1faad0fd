"""The memory that a process may still take: the least that the machine, its control groups and its own limit leave."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from wse.backends.execute.host_memory.required_memory import free_bytes

MIB = 1 << 20


def machine(root: Path, groups: str, files: dict[str, str]) -> int | None:
    """The free bytes of a machine with 8 GiB available, and these control groups."""
    given = {"proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable: {8 * MIB} kB\n", "proc/self/cgroup": groups}
    for name, text in (given | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return free_bytes(root)


def test_without_groups_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert machine(tmp_path, "0::/\n", {}) == 8 << 30
    assert machine(tmp_path, "nonsense", {}) == 8 << 30


def test_the_tightest_group_around_the_process_counts(tmp_path: Path) -> None:
    """Version 2; files that the group keeps in memory count as free."""
    inner = {"memory.max": "max\n", "memory.current": "5\n", "memory.stat": "inactive_file 0\n"}
    outer = {"memory.max": f"{1 << 30}\n", "memory.current": f"{600 * MIB}\n", "memory.stat": f"inactive_file {MIB}\n"}
    files = {f"sys/fs/cgroup/job/{name}": text for name, text in outer.items()}
    files |= {f"sys/fs/cgroup/job/task/{name}": text for name, text in inner.items()}
    assert machine(tmp_path, "0::/job/task\n", files) == 425 * MIB


def test_groups_of_version_1_count_too(tmp_path: Path) -> None:
    group = {"memory.limit_in_bytes": f"{MIB}\n", "memory.usage_in_bytes": f"{2 * MIB}\n"}
    files = {f"sys/fs/cgroup/memory/{name}": text for name, text in group.items()}
    assert machine(tmp_path, "9:cpu,memory:/elsewhere\n0::/\n", files) == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the size of a process is read from Linux")
def test_a_limit_of_the_process_counts() -> None:
    script = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, -1))\n"
    script += "from wse.backends.execute.host_memory.required_memory import free_bytes; print(free_bytes())"
    limited = int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
    assert 0 < limited < 2 << 30
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
