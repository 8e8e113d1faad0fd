"""The pool of a study: processes of this machine, or workers of a Ray cluster."""

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
    """The function that works through a queue with some processes, as `wse.studies.workers.pool.outputs` does."""

    def __call__(self, queue: Queue, jobs: int, task: Task[Output], /) -> Iterator[tuple[int, Output | KilledItem]]:
        """Yield the items of a queue with their outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool: the processes that it may have, and what works with them."""

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
    """Yield the items of a study with the output of each, in the order in which they are done.

    By this process itself where the pool is one process of this machine.

    Args:
        pool: The processes.
        items: The items.
        function: A function on the top level of its module.
        arguments: Its arguments for an item.
        owner: The owner of the processes in messages.
        kill_remedy: A remedy for the user where a process is killed.
        name: The name of an item in messages.

    Raises:
        BadInput: a process cannot start, or was killed over an item more than once.
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
            message = f"{name(items[at])}: {output.reason}"
            raise BadInput(message)
        yield items[at], output


@contextmanager
def engine_pool(engine: EngineChoice, jobs: int | None) -> Iterator[Pool]:
    """Yield the pool of an engine; its cluster, where it has one, ends with this.

    Raises:
        BadInput and its kinds: there is no such engine, or it has not as many processes as ``jobs``.
    """
    check_engine(engine)
    if engine.name != RAY:
        yield Pool(processes=process_count(jobs), outputs=outputs)
        return
    from wse.studies.workers.ray_cluster import ray_cluster  # brings Ray, which is optional
    from wse.studies.workers.ray_pool import ray_outputs, ray_process_count

    with ray_cluster(engine.ray_address):
        yield Pool(processes=ray_process_count(jobs), outputs=ray_outputs)
