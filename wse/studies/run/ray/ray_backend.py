"""Backend of ``--engine ray``: one Ray actor per wafer for the duration of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from wse.backends.execute.backend import BackendFactory
from wse.backends.execute.host_memory.required_memory import required_bytes
from wse.errors import BadInput
from wse.program.program import Program
from wse.studies.run.prepare import PreparedRun
from wse.studies.run.ray.ray_engine import RayEngine
from wse.studies.run.ray.wafer_actor import WaferActor
from wse.studies.workers.ray_cluster import cpus_of_each, imported_ray, node_resources, ray_cluster


@contextmanager
def ray_backend(prepared_run: PreparedRun, program: Program) -> Iterator[BackendFactory]:
    """Start one actor (process) per wafer on a Ray cluster, and yield a factory of backends.

    The actors are killed when the context ends.

    Args:
        prepared_run: The run, whose request specifies the cluster.
        program: The compiled Program of the run.

    Raises:
        BadInput: A pipeline stage spans several wafers, Ray is not installed, no cluster responds,
            or the cluster has fewer CPUs than there are wafers.
        InsufficientMemory: The cluster has too little memory.
    """
    request = prepared_run.request
    if any(stage.span > 1 for stage in program.stages):
        message = (
            f"--engine ray: each wafer is a separate process, but --mapping {program.mapping_name} has regions that "
            "span wafers; use --mapping region or pipeline, or --engine local"
        )
        raise BadInput(message)
    with ray_cluster(request.ray_address):
        max_bytes = max(required_bytes(program, (wafer,)) for wafer in range(program.wafers))
        cpus = cpus_of_each(program.wafers, max_bytes, node_resources())
        with _actors(program.wafers, cpus, max_bytes) as actors:
            yield partial(RayEngine, request=request, actors=actors, threads=cpus)


@contextmanager
def _actors(wafers: int, cpus: int, memory_bytes: int) -> Iterator[list[Any]]:
    """Start actors on the machines of a Ray cluster, and kill them when the context ends.

    Args:
        wafers: Number of actors, one per wafer.
        cpus: Number of CPUs per actor.
        memory_bytes: Memory per actor.
    """
    ray = imported_ray()
    options = {"num_cpus": cpus, "memory": memory_bytes, "scheduling_strategy": "SPREAD"}
    actors = [ray.remote(WaferActor).options(**options).remote() for _ in range(wafers)]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)
