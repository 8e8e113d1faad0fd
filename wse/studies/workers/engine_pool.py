"""The pool of a study: processes of this machine, or workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from wse.request.engine_option import RAY, EngineChoice, check_engine
from wse.studies.workers.pool import KilledItem, Queue, Task, outputs, process_count

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
