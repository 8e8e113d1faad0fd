"""Pool: the processes of a study, on this computer or as workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from wse.errors import BadInput
from wse.studies.options.engine import RAY, EngineChoice, check_engine
from wse.studies.workers.pool import KilledItem, Queue, Task, outputs, process_count

Item = TypeVar("Item")
Output = TypeVar("Output")


class Outputs(Protocol):
    """Function that computes an output for each item of a queue, using several processes.

    There are two implementations: `wse.studies.workers.pool.outputs` for processes on this
    computer, and `wse.studies.workers.ray_cluster.ray_outputs` for a Ray cluster.
    """

    def __call__(self, queue: Queue, jobs: int, task: Task[Output], /) -> Iterator[tuple[int, Output | KilledItem]]:
        """Yield (item, output) for each item of a queue as soon as its output is known.

        Args:
            queue: The items.
            jobs: Number of processes.
            task: The function that computes an output, and its arguments for each item.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool of processes on this computer or on a Ray cluster.

    Attributes:
        processes: Maximum number of processes.
        outputs: Function that computes an output for each item of a queue.
    """

    processes: int
    outputs: Outputs


def each_output(
    pool: Pool,
    items: Sequence[Item],
    function: Callable[..., Output],
    arguments: Callable[[Item], tuple[Any, ...]],
    *,
    owner: str,
    kill_remedy: str,
    name: Callable[[Item], str] = str,
) -> Iterator[tuple[Item, Output]]:
    """Call a function for each item in a pool of processes.

    With a single process on this computer, the function runs in the calling process.

    Args:
        pool: The processes.
        items: The items.
        function: A function at the top level of its module, so that other processes can import it.
        arguments: Function that returns the arguments for an item.
        owner: Owner of the processes in error messages, such as "the sweep".
        kill_remedy: Advice for error messages when a process is killed.
        name: Function that returns the name of an item, for error messages.

    Yields:
        Each item with its output, in order of completion.

    Raises:
        BadInput: A process cannot start, or was killed more than once while computing an item.
    """
    if pool.processes == 1 and pool.outputs is outputs:
        yield from ((item, function(*arguments(item))) for item in items)
        return
    task = Task(
        function=function,
        arguments=lambda at: arguments(items[at]),
        owner=owner,
        start_remedy="free some memory, and give the same command again",
        kill_remedy=kill_remedy,
    )
    queue = Queue([at] for at in range(len(items)))
    for at, output in pool.outputs(queue, min(pool.processes, len(items)), task):
        if isinstance(output, KilledItem):
            raise BadInput(f"{name(items[at])}: {output.reason}")
        yield items[at], output


@contextmanager
def engine_pool(engine: EngineChoice, jobs: int | None) -> Iterator[Pool]:
    """Yield a pool of processes on this computer or on a Ray cluster.

    If a cluster is started for the pool, the cluster stops when the context ends.

    Args:
        engine: ``local`` or ``ray``, with the address of a cluster.
        jobs: Requested number of processes. None uses all cores of this computer or all CPUs of the
            cluster.

    Raises:
        BadInput: The engine does not exist, or it does not have ``jobs`` processes. The subclass
            indicates which.
    """
    check_engine(engine)
    if engine.name != RAY:
        yield Pool(processes=process_count(jobs), outputs=outputs)
        return
    from wse.studies.workers.ray_cluster import (
        ray_cluster,  # brings Ray, which is optional
        ray_outputs,
        ray_process_count,
    )

    with ray_cluster(engine.ray_address):
        yield Pool(processes=ray_process_count(jobs), outputs=ray_outputs)
