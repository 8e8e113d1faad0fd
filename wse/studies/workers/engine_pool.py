"""Pool: the processes of a study, on this computer or as workers of a Ray cluster."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from wse.errors import BadInput, WseBug
from wse.studies.options.engine import RAY, EngineChoice, check_engine
from wse.studies.workers.pool import KilledItem, Queue, Task, outputs, process_count

Item = TypeVar("Item")
Output = TypeVar("Output")


Outputs = Callable[[Queue, int, Task[Any]], Iterator[tuple[int, Any]]]
"""Function that computes an output for each item of a queue with a number of processes.

There are two: `wse.studies.workers.pool.outputs` for processes on this computer, and
`wse.studies.workers.ray_cluster.ray_outputs` for a Ray cluster.
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
        WseBug: The function raised an exception.
    """
    task = Task(
        function=partial(_attempt, function),
        arguments=lambda at: arguments(items[at]),
        owner=owner,
        start_remedy="free some memory, and give the same command again",
        kill_remedy=kill_remedy,
    )
    if pool.processes == 1 and pool.outputs is outputs:
        found: Iterator[tuple[int, Any]] = ((at, task.function(*task.arguments(at))) for at in range(len(items)))
    else:
        queue = Queue([at] for at in range(len(items)))
        found = pool.outputs(queue, min(pool.processes, len(items)), task)
    for at, output in found:
        if isinstance(output, KilledItem):
            raise BadInput(f"{name(items[at])}: {output.reason}")
        if isinstance(output, _Bug):
            raise WseBug(f"{name(items[at])} ended in a bug\n{output.traceback}")
        yield items[at], output


class _Bug(NamedTuple):
    """Output of a function that raised an exception."""

    traceback: str


def _attempt(function: Callable[..., Output], *arguments: Any) -> Output | _Bug:
    """Call a function in a worker process, and return its output or the traceback of an exception."""
    try:
        return function(*arguments)
    except Exception:
        return _Bug(traceback.format_exc())


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
    if engine.engine != RAY:
        yield Pool(processes=process_count(jobs), outputs=outputs)
        return
    from wse.studies.workers.ray_cluster import (
        ray_cluster,  # brings Ray, which is optional
        ray_outputs,
        ray_process_count,
    )

    with ray_cluster(engine.ray_address):
        yield Pool(processes=ray_process_count(jobs), outputs=ray_outputs)
