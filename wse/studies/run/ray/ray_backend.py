"""The backend of ``--engine ray`` for as long as a run lasts: its cluster, and an actor for each wafer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from wse.backends.execute.backend import BackendFactory
from wse.backends.execute.required_memory import required_bytes
from wse.errors import BadInput
from wse.program.program import Program
from wse.studies.run.prepare import PreparedRun
from wse.studies.run.ray.ray_engine import RayEngine
from wse.studies.run.ray.wafer_actor import WaferActor
from wse.studies.workers.ray_cluster import cpus_of_each, imported_ray, node_resources, ray_cluster


@contextmanager
def ray_backend(prepared: PreparedRun, program: Program) -> Iterator[BackendFactory]:
    """Yield what makes the backend, on the cluster that the request names; its actors end with this.

    Raises:
        BadInput: a region spans wafers; Ray is not installed, no cluster answers, or it has fewer CPUs than wafers.
        InsufficientMemory: it has too little memory.
    """
    request = prepared.request
    if any(stage.span > 1 for stage in program.stages):
        message = (
            f"--engine ray: each wafer is a process of its own, and --mapping {program.mapping_name} has regions that "
            "span wafers; use --mapping region or pipeline, or --engine local"
        )
        raise BadInput(message)
    with ray_cluster(request.ray_address):
        most = max(required_bytes(program, (wafer,)) for wafer in range(program.wafers))
        cpus = cpus_of_each(program.wafers, most, node_resources())
        with _actors(program.wafers, cpus, most) as actors:
            yield partial(RayEngine, request=request, actors=actors, threads=cpus)


@contextmanager
def _actors(wafers: int, cpus: int, memory_bytes: int) -> Iterator[list[Any]]:
    """Actors, one a wafer, spread over the machines; they are killed at the end."""
    ray = imported_ray()
    options = {"num_cpus": cpus, "memory": memory_bytes, "scheduling_strategy": "SPREAD"}
    actors = [ray.remote(WaferActor).options(**options).remote() for _ in range(wafers)]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)
