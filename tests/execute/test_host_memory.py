"""Tests of host memory: lanes of an arena, free memory in control groups, and threads that store weights."""

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from wse.backends.execute.host_memory.arena import MAX_LANES, Arena
from wse.backends.execute.host_memory.required_memory import free_bytes
from wse.backends.execute.weight_storage.stored_patches import PatchJob, stored_patches

THREADS, MAX_VALUES = 3, 100


def store(jobs: Iterable[PatchJob], threads: int = THREADS) -> list[PatchJob]:
    """Execute jobs and return them in the order in which they are yielded."""
    return list(stored_patches(jobs, threads, MAX_VALUES))


class ActiveJobs:
    """Counter of the jobs that run at the same time.

    Attributes:
        now: Jobs that run now.
        max_active: Maximum of `now` so far.
    """

    def __init__(self) -> None:
        self.lock, self.now, self.max_active = threading.Lock(), 0, 0

    def job(self, work: Callable[[], object], counts: list[int] | None = None) -> Callable[[], None]:
        """Return the function of a job that does ``work``; append the number of active jobs to ``counts`` if given."""

        def run() -> None:
            with self.lock:
                self.now += 1
                self.max_active = max(self.max_active, self.now)
                if counts is not None:
                    counts.append(self.now)
            try:
                work()
            finally:
                with self.lock:
                    self.now -= 1

        return run


def test_jobs_run_on_all_threads() -> None:
    active, barrier = ActiveJobs(), threading.Barrier(THREADS, timeout=30)
    store(PatchJob(1, active.job(barrier.wait)) for _ in range(4 * THREADS))
    assert active.max_active == THREADS


def test_job_with_too_many_values_runs_alone() -> None:
    active = ActiveJobs()
    counts_of_large_jobs: list[int] = []
    jobs = [
        PatchJob(MAX_VALUES + 1, active.job(lambda: time.sleep(0.002), counts_of_large_jobs))
        if at % 4 == 2
        else PatchJob(1, active.job(lambda: time.sleep(0.002)))
        for at in range(16)
    ]
    assert store(jobs) == jobs
    assert counts_of_large_jobs == [1] * 4
    assert active.max_active > 1


def test_active_jobs_stay_within_the_limit_of_values() -> None:
    active, barrier = ActiveJobs(), threading.Barrier(2, timeout=30)
    store((PatchJob(MAX_VALUES // 2, active.job(barrier.wait)) for _ in range(16)), threads=8)
    assert active.max_active == 2


def test_jobs_are_yielded_in_order_after_they_finish() -> None:
    finished: list[int] = []

    def run(at: int) -> None:
        time.sleep(0.002 * (at % 3 == 0))
        finished.append(at)

    jobs = [PatchJob(1, lambda at=at: run(at), f"{at}") for at in range(12)]
    for at, job in enumerate(stored_patches(jobs, THREADS, MAX_VALUES)):
        assert job is jobs[at]
        assert at in finished


def test_first_failing_job_raises_and_later_jobs_do_not_start() -> None:
    started, failed = [], threading.Event()

    def fail(at: int) -> None:
        if at == 1:
            assert failed.wait(30)  # job 2 fails first
        else:
            failed.set()
        raise ValueError(at)

    def run(at: int) -> None:
        started.append(at)
        if at in (1, 2):
            fail(at)

    with pytest.raises(ValueError, match="1"):
        store(PatchJob(1, lambda at=at: run(at)) for at in range(1000))
    assert max(started) < 30


@pytest.mark.parametrize("failing", [True, False])
def test_error_of_the_job_iterator_is_raised_after_errors_of_earlier_jobs(*, failing: bool) -> None:
    iterator_continued, stored = threading.Event(), []

    def run() -> None:
        assert iterator_continued.wait(30)
        if failing:
            raise ValueError("of a job")
        stored.append(1)

    def jobs() -> Iterator[PatchJob]:
        yield PatchJob(1, run)
        iterator_continued.set()
        raise ValueError("of the iterator")

    with pytest.raises(ValueError, match="of a job" if failing else "of the iterator"):
        store(jobs())
    assert len(stored) == (not failing)


BYTES = 1024


def lanes(cols: int) -> int:
    """Return the number of lanes that an arena has for a row of ``cols`` PEs, including unused lanes."""
    return Arena.host_bytes(1, cols, 0, BYTES) // BYTES


@pytest.mark.parametrize(("cols", "expected"), [(8, 8), (103, 112), (256, 256), (660, 672), (683, 704), (750, 768)])
def test_lanes_of_a_row(cols: int, expected: int) -> None:
    assert lanes(cols) == expected


def test_every_pe_has_a_lane_and_at_most_one_lane_in_eight_is_unused() -> None:
    for cols in range(1, 10 * MAX_LANES):
        arena = Arena(1, cols, 0, 4)
        assert arena.lanes <= MAX_LANES
        assert cols <= arena.blocks_per_row * arena.lanes == lanes(cols) <= 8 / 7 * (cols + arena.blocks_per_row)


MIB = 1 << 20


def free_bytes_in(root: Path, groups: str, files: dict[str, str]) -> int | None:
    """Return the free bytes that are found on a machine with 8 GiB of available memory.

    Args:
        root: Folder in which the files of `/proc` and `/sys` are written.
        groups: Text of `/proc/self/cgroup`.
        files: Text of further files by path.
    """
    system_files = {"proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable: {8 * MIB} kB\n", "proc/self/cgroup": groups}
    for name, text in (system_files | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return free_bytes(root)


def test_free_bytes_without_control_groups_are_those_of_the_machine(tmp_path: Path) -> None:
    assert free_bytes_in(tmp_path, "0::/\n", {}) == 8 << 30
    assert free_bytes_in(tmp_path, "nonsense", {}) == 8 << 30


def test_free_bytes_are_limited_by_the_tightest_control_group(tmp_path: Path) -> None:
    """The groups are of version 2. The page cache of a group (`inactive_file`) counts as free."""
    inner = {"memory.max": "max\n", "memory.current": "5\n", "memory.stat": "inactive_file 0\n"}
    outer = {"memory.max": f"{1 << 30}\n", "memory.current": f"{600 * MIB}\n", "memory.stat": f"inactive_file {MIB}\n"}
    files = {f"sys/fs/cgroup/job/{name}": text for name, text in outer.items()}
    files |= {f"sys/fs/cgroup/job/task/{name}": text for name, text in inner.items()}
    assert free_bytes_in(tmp_path, "0::/job/task\n", files) == 425 * MIB


def test_free_bytes_are_limited_by_control_groups_of_version_1(tmp_path: Path) -> None:
    group = {"memory.limit_in_bytes": f"{MIB}\n", "memory.usage_in_bytes": f"{2 * MIB}\n"}
    files = {f"sys/fs/cgroup/memory/{name}": text for name, text in group.items()}
    assert free_bytes_in(tmp_path, "9:cpu,memory:/elsewhere\n0::/\n", files) == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the size of a process is read from Linux")
def test_free_bytes_are_limited_by_the_address_space_limit() -> None:
    script = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, -1))\n"
    script += "from wse.backends.execute.host_memory.required_memory import free_bytes; print(free_bytes())"
    limited = int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
    assert 0 < limited < 2 << 30
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
