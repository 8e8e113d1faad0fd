"""A pool of Ray actors that work on items, as `wse.studies.workers.pool` does with processes of this machine.

Ray restarts a worker that is lost with its process or its machine, elsewhere if need be, and has it do its item once
more; who has nothing left to do gives back its CPU, so that there is one to restart on. A worker for which other
work on the cluster leaves no CPU takes part as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from wse.errors import BadInput, WseBug
from wse.reports.terminal import plural
from wse.studies.workers.pool import MOST_TRIES, KilledItem, Queue, Task, process_count
from wse.studies.workers.ray_cluster import await_actors, check_ping, cluster_cpus, imported_ray

Output = TypeVar("Output")


class RayWorker:
    """A worker with a function, whose module it loads once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def ping(self) -> None:
        """Answer, once the process is there."""

    def work(self, *arguments: Any) -> Any:
        """Return the function's output."""
        return self._function(*arguments)


def ray_process_count(jobs: int | None) -> int:
    """Return the number of workers that ``jobs`` asks for: all CPUs of the cluster where it is None.

    Raises:
        BadInput: it is out of range, or the cluster has not as many.
    """
    cpus = cluster_cpus()
    if jobs is None:
        return max(1, cpus)
    if process_count(jobs) > cpus:
        message = f"--jobs {jobs}: the cluster has {plural(cpus, 'CPU')}; give fewer, or a larger one"
        raise BadInput(message)
    return jobs


def ray_outputs(queue: Queue, jobs: int, task: Task[Output]) -> Iterator[tuple[int, Output | KilledItem]]:
    """Yield the items of a queue with their outputs, computed by ``jobs`` actors, in the order in which they come.

    When the caller stops, actors are killed at their work.

    Raises:
        BadInput: no actor has started in time, or one cannot start.
    """
    ray = imported_ray()
    restarts = {"max_restarts": -1, "max_task_retries": MOST_TRIES - 1}
    kind = ray.remote(RayWorker).options(num_cpus=1, scheduling_strategy="SPREAD", **restarts)
    workers = [kind.remote(task.function) for _ in range(jobs)]
    under_way: dict[Any, tuple[int, int]] = {}

    def take(number: int) -> None:
        item = queue.next(number)
        if item is None:
            ray.kill(workers[number])
            pings.clear()  # nothing is left for those that have not started
        else:
            under_way[workers[number].work.remote(*task.arguments(item))] = (number, item)

    try:
        pings = await_actors(workers, "worker", least=1)
        while pings or under_way:
            for done in ray.wait([*under_way, *pings])[0]:
                if done in pings:
                    check_ping(done, "worker")
                    take(pings.pop(done))
                    continue
                number, item = under_way.pop(done)
                try:
                    yield item, ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    message = f"{task.owner}: {error}"
                    raise WseBug(message) from error
                except ray.exceptions.RayError:
                    yield item, KilledItem(f"its process was ended {MOST_TRIES} times; {task.kill_remedy}")
                take(number)
    finally:
        for worker in workers:
            ray.kill(worker)
