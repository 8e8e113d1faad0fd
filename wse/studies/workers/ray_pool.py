"""Pool of Ray actors, the counterpart of `wse.studies.workers.pool` on a Ray cluster.

If a worker's process or machine is lost, Ray restarts the worker, on another machine if necessary,
and repeats its item once. A worker without items returns its CPU, so that lost workers can be
restarted there. A worker that finds no free CPU joins as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from wse.errors import BadInput, WseBug
from wse.garbage_collection import collect_rarely
from wse.reports.terminal import plural
from wse.studies.workers.pool import MAX_TRIES, KilledItem, Queue, Task, process_count
from wse.studies.workers.ray_cluster import await_actors, check_ping, cluster_cpus, imported_ray

Output = TypeVar("Output")


class RayWorker:
    """A Ray actor (a process on a cluster) that calls one function with different arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        collect_rarely()
        self._function = function

    def ping(self) -> None:
        """Do nothing. Callers use it to wait until the process has started."""

    def work(self, *arguments: Any) -> Any:
        """Call the function with these arguments and return its output."""
        return self._function(*arguments)


def ray_process_count(jobs: int | None) -> int:
    """Check the option ``--jobs`` and return the number of worker processes on the cluster.

    None means one process per CPU of the cluster.

    Raises:
        BadInput: The number is out of range, or exceeds the cluster's CPU count.
    """
    cpus = cluster_cpus()
    if jobs is None:
        return max(1, cpus)
    if process_count(jobs) > cpus:
        raise BadInput(f"--jobs {jobs}: the cluster has {plural(cpus, 'CPU')}; give fewer, or a larger one")
    return jobs


def ray_outputs(queue: Queue, jobs: int, task: Task[Output]) -> Iterator[tuple[int, Output | KilledItem]]:
    """Compute an output for each item of a queue, using several Ray actors (processes).

    If the caller stops iterating, all actors are killed.

    Args:
        queue: The items.
        jobs: Number of actors.
        task: The function to call for each item, its arguments, and wording for errors.

    Yields:
        Each item with its output, in order of completion. The output is a `KilledItem` if the
        item's process was killed `MAX_TRIES` times.

    Raises:
        BadInput: No actor started in time, or an actor cannot start.
        WseBug: The function raised an exception.
    """
    ray = imported_ray()
    restarts = {"max_restarts": -1, "max_task_retries": MAX_TRIES - 1}
    kind = ray.remote(RayWorker).options(num_cpus=1, scheduling_strategy="SPREAD", **restarts)
    workers = [kind.remote(task.function) for _ in range(jobs)]
    calls_in_flight: dict[Any, tuple[int, int]] = {}

    def take(number: int) -> None:
        item = queue.next(number)
        if item is None:
            ray.kill(workers[number])
            pings.clear()  # actors that have not started are not needed
        else:
            calls_in_flight[workers[number].work.remote(*task.arguments(item))] = (number, item)

    try:
        pings = await_actors(workers, "worker", min_actors=1)
        while pings or calls_in_flight:
            for finished_call in ray.wait([*calls_in_flight, *pings])[0]:
                if finished_call in pings:
                    check_ping(finished_call, "worker")
                    take(pings.pop(finished_call))
                    continue
                number, item = calls_in_flight.pop(finished_call)
                try:
                    yield item, ray.get(finished_call)
                except ray.exceptions.RayTaskError as error:
                    raise WseBug(f"{task.owner}: {error}") from error
                except ray.exceptions.RayError:
                    yield item, KilledItem(f"its process was ended {MAX_TRIES} times; {task.kill_remedy}")
                take(number)
    finally:
        for worker in workers:
            ray.kill(worker)
