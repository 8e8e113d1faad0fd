"""The memory of this machine that a process can still take: of the machine, its control groups and its own limit.

On Linux; elsewhere only what the system tells any program, and nothing where it tells nothing. Files that are kept in
memory count as free, as the kernel lets them go first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

KIB: Final = 1024


class GroupFiles(NamedTuple):
    """Names of the files of a memory control group, by version of the interface."""

    limit: str
    usage: str
    file_pages: str  # line of memory.stat


VERSION_1: Final = GroupFiles("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2: Final = GroupFiles("memory.max", "memory.current", "inactive_file")


def free_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process can still allocate; None where unknown. ``root`` has /proc and /sys."""
    limits = [*_machine(root), *_control_groups(root), *_process_limit(root)]
    return max(0, min(limits)) if limits else None


def _machine(root: Path) -> Iterator[int]:
    """Yield the kernel's estimate of memory available without swapping (proc_meminfo(5), MemAvailable)."""
    amount = _amounts(root / "proc/meminfo").get("MemAvailable")
    if amount is not None:
        yield amount * KIB
    else:
        with suppress(AttributeError, OSError, ValueError):
            yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_groups(root: Path) -> Iterator[int]:
    """Yield the remaining bytes of the control groups of this process and of their parents (cgroups(7))."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                base, files = root / "sys/fs/cgroup", VERSION_2
            elif "memory" in controllers.split(","):
                base, files = root / "sys/fs/cgroup/memory", VERSION_1
            else:
                continue
            group = PurePosixPath(path.lstrip("/"))
            for folder in (group, *group.parents):
                yield from _of_group(base / folder, files)


def _of_group(folder: Path, files: GroupFiles) -> Iterator[int]:
    """Yield the limit of a group minus its usage; nothing where it has no limit."""
    with suppress(OSError, ValueError):
        limit, usage = (int((folder / name).read_text()) for name in (files.limit, files.usage))
        yield limit - usage + _amounts(folder / "memory.stat").get(files.file_pages, 0)


def _process_limit(root: Path) -> Iterator[int]:
    """Yield the limit of this process's address space, ``ulimit -v``, minus what is mapped; not on Windows."""
    with suppress(ImportError, OSError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        size = _amounts(root / "proc/self/status").get("VmSize")
        if limit != resource.RLIM_INFINITY and size is not None:
            yield limit - size * KIB


def _amounts(path: Path) -> dict[str, int]:
    """Return the numbers of lines such as ``MemAvailable: 123 kB`` by name; empty where the file does not exist."""
    try:
        words = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}
