"""Memory of the host: lanes of an arena, free memory, peak memory, and weights stored by threads."""

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
    """The jobs, as they come back."""
    return list(stored_patches(jobs, threads, MAX_VALUES))


class Begun:
    """Counts the jobs under way."""

    def __init__(self) -> None:
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def job(self, work: Callable[[], object], others: list[int] | None = None) -> Callable[[], None]:
        """A job that does some work, and notes how many were under way with it."""

        def run() -> None:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
                if others is not None:
                    others.append(self.now)
            try:
                work()
            finally:
                with self.lock:
                    self.now -= 1

        return run


def test_as_many_are_stored_at_a_time_as_there_are_threads() -> None:
    begun, meeting = Begun(), threading.Barrier(THREADS, timeout=30)
    store(PatchJob(1, begun.job(meeting.wait)) for _ in range(4 * THREADS))
    assert begun.most == THREADS


def test_one_of_many_values_is_stored_while_there_is_no_other() -> None:
    begun = Begun()
    under_way: list[int] = []
    jobs = [
        PatchJob(MAX_VALUES + 1, begun.job(lambda: time.sleep(0.002), under_way))
        if at % 4 == 2
        else PatchJob(1, begun.job(lambda: time.sleep(0.002)))
        for at in range(16)
    ]
    assert store(jobs) == jobs
    assert under_way == [1] * 4
    assert begun.most > 1


def test_those_under_way_have_few_values_however_many_threads_there_are() -> None:
    begun, meeting = Begun(), threading.Barrier(2, timeout=30)
    store((PatchJob(MAX_VALUES // 2, begun.job(meeting.wait)) for _ in range(16)), threads=8)
    assert begun.most == 2


def test_they_come_back_in_their_order_once_they_are_stored() -> None:
    ended: list[int] = []

    def run(at: int) -> None:
        time.sleep(0.002 * (at % 3 == 0))
        ended.append(at)

    jobs = [PatchJob(1, lambda at=at: run(at), f"{at}") for at in range(12)]
    for at, job in enumerate(stored_patches(jobs, THREADS, MAX_VALUES)):
        assert job is jobs[at]
        assert at in ended


def test_the_error_is_that_of_the_first_job_in_order_and_none_begins_long_after() -> None:
    begun, failed = [], threading.Event()

    def fail(at: int) -> None:
        if at == 1:
            assert failed.wait(30)  # the next one is sooner
        else:
            failed.set()
        raise ValueError(at)

    def run(at: int) -> None:
        begun.append(at)
        if at in (1, 2):
            fail(at)

    with pytest.raises(ValueError, match="1"):
        store(PatchJob(1, lambda at=at: run(at)) for at in range(1000))
    assert max(begun) < 30


@pytest.mark.parametrize("failing", [True, False])
def test_an_error_of_what_makes_the_jobs_comes_behind_those_of_the_jobs_before(*, failing: bool) -> None:
    made, stored = threading.Event(), []

    def run() -> None:
        assert made.wait(30)
        if failing:
            message = "of a job"
            raise ValueError(message)
        stored.append(1)

    def jobs() -> Iterator[PatchJob]:
        yield PatchJob(1, run)
        made.set()
        message = "of what makes them"
        raise ValueError(message)

    with pytest.raises(ValueError, match="of a job" if failing else "of what makes them"):
        store(jobs())
    assert len(stored) == (not failing)


BYTES = 1024


def lanes(cols: int) -> int:
    """Lanes of a mesh row."""
    return Arena.host_bytes(1, cols, 0, BYTES) // BYTES


@pytest.mark.parametrize(("cols", "wanted"), [(8, 8), (103, 112), (256, 256), (660, 672), (683, 704), (750, 768)])
def test_lanes_of_a_row(cols: int, wanted: int) -> None:
    assert lanes(cols) == wanted


def test_every_pe_has_a_lane_and_one_in_eight_stands_for_none_at_the_most() -> None:
    for cols in range(1, 10 * MAX_LANES):
        arena = Arena(1, cols, 0, 4)
        assert arena.lanes <= MAX_LANES
        assert cols <= arena.blocks_per_row * arena.lanes == lanes(cols) <= 8 / 7 * (cols + arena.blocks_per_row)


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
