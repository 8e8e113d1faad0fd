"""Memory of this computer: what a run needs, and what is free.

Free memory is limited by the machine, by control groups and by ``ulimit``. All of these limits are
known on Linux. Elsewhere, only the limits that the operating system reports to every program are
known, if any. File pages in memory count as free, because the kernel drops them first.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.tiles import VALUES_IN_FLIGHT
from wse.program.program import Program
from wse_mappings.cuts.cache_balance import CacheBalance

KIB: Final = 1024


class GroupFiles(NamedTuple):
    """Names of the files with the memory limit and usage of a Linux control group (cgroup).

    The names differ between versions 1 and 2 of the interface. ``file_pages`` is the name of a line
    in the file ``memory.stat``: the size of inactive cached files.
    """

    limit: str
    usage: str
    file_pages: str  # line of memory.stat


VERSION_1: Final = GroupFiles("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2: Final = GroupFiles("memory.max", "memory.current", "inactive_file")


def free_bytes(root: Path = Path("/")) -> int | None:
    """Return how many bytes this process can still allocate; None if unknown.

    Args:
        root: Folder that contains the system folders ``proc`` and ``sys``.
    """
    limits = [*_machine(root), *_control_groups(root), *_process_limit(root)]
    return max(0, min(limits)) if limits else None


def _machine(root: Path) -> Iterator[int]:
    """Yield the operating system's estimate of the memory available without swapping.

    This is MemAvailable of proc_meminfo(5), or else the number of free pages.
    """
    amount = _amounts(root / "proc/meminfo").get("MemAvailable")
    if amount is not None:
        yield amount * KIB
    else:
        with suppress(AttributeError, OSError, ValueError):
            yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_groups(root: Path) -> Iterator[int]:
    """Yield the bytes left in this process's control groups and their parents (cgroups(7))."""
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
                yield from _remaining_group_bytes(base / folder, files)


def _remaining_group_bytes(folder: Path, files: GroupFiles) -> Iterator[int]:
    """Yield the limit of a control group minus its usage, or nothing if the group has no limit.

    Inactive cached files do not count as usage, because the system can free their memory.
    """
    with suppress(OSError, ValueError):
        limit, usage = (int((folder / name).read_text()) for name in (files.limit, files.usage))
        yield limit - usage + _amounts(folder / "memory.stat").get(files.file_pages, 0)


def _process_limit(root: Path) -> Iterator[int]:
    """Yield the bytes that this process can still map: the ``ulimit -v`` limit minus its size.

    Nothing is yielded if there is no limit or the size is unknown, as on Windows.
    """
    with suppress(ImportError, OSError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        size = _amounts(root / "proc/self/status").get("VmSize")
        if limit != resource.RLIM_INFINITY and size is not None:
            yield limit - size * KIB


def _amounts(path: Path) -> dict[str, int]:
    """Return the numbers in a file with lines such as ``MemAvailable: 123 kB``.

    The key is the first word of a line. The result is empty if the file does not exist.
    """
    try:
        words = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


DIRECTIONS = 4
COUNTER_BYTES = 8
LOGIT_BYTES = 4
IN_FLIGHT_BYTES = 4 * VALUES_IN_FLIGHT


def required_bytes(program: Program, wafers: Collection[int] | None = None) -> int:
    """Return how many bytes of memory an engine needs to execute a Program or some of its wafers.

    The total consists of the SRAM, the word counters of links, the cache counters, the logits on
    the host, and `IN_FLIGHT_BYTES` for weights that are being stored. The last item does not depend
    on the model or the number of threads, but a tensor that can only be decoded as a whole may need
    more. The Program itself and compiled kernels need about another 100 MB.

    Args:
        program: The compiled Program.
        wafers: Wafers of this process; None for all.
    """
    wafer_indices = range(program.wafers) if wafers is None else wafers
    stages = [stage for stage in program.stages if stage.wafer in wafer_indices]
    sram = sum(Arena.host_bytes(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte) for s in stages)
    pes = sum(s.rect.rows * s.cols for s in stages) + len(wafer_indices) * program.wafer_rows * program.wafer_cols
    heights = {stage.rect.rows for stage in program.stages}
    caches = program.batch * sum(CacheBalance.host_bytes(rows, program.context) for rows in heights)
    logits = (program.batch + program.verify_tokens) * program.vocab_size
    return sram + pes * DIRECTIONS * COUNTER_BYTES + caches + logits * LOGIT_BYTES + IN_FLIGHT_BYTES
