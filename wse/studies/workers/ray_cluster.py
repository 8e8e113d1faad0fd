"""Connection to an existing Ray cluster, or to one started on this computer.

The actors of `ray_outputs` are the counterpart on a cluster of the processes of
`wse.studies.workers.pool`. Ray is imported only when a cluster is requested.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from wse.errors import BadInput, InsufficientMemory, WseBug
from wse.garbage_collection import collect_rarely
from wse.reports.number_text import in_bytes, plural
from wse.studies.workers.pool import MAX_TRIES, KilledItem, Queue, Task, cores, process_count

OBJECT_STORE_BYTES: Final = 256 << 20
"""Object-store size of a cluster started here. Transfers between wafers need a few MB."""
AUTH_MODE: Final = "RAY_AUTH_MODE"
CONNECT_S: Final = 10.0
START_S: Final = 60.0
"""Time limit in seconds for starting actors."""

QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Environment variables for Ray: no usage reports, and no warning about accelerators."""


@contextmanager
def ray_cluster(address: str | None) -> Iterator[None]:
    """Connect to a Ray cluster, or start one on this computer and stop it when the context ends.

    If this process is already connected to a cluster, that cluster is used. A new cluster has one
    CPU per core of this process and no dashboard.

    Access to a new cluster requires a secret that only this process knows. This is not the case if
    `RAY_AUTH_MODE` is set, or if Ray has already been imported, because Ray reads the setting on
    import.

    Args:
        address: HOST:PORT or "auto". None starts a cluster.

    Raises:
        BadInput: Ray is not installed, or no cluster responds at the address.
    """
    if address is None and "ray" not in sys.modules and AUTH_MODE not in os.environ:  # Ray reads it on import
        os.environ |= {AUTH_MODE: "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = imported_ray()
    if ray.is_initialized():
        yield
        return
    short_folder = "/tmp" if Path("/tmp").is_dir() else None  # socket paths are limited to about 100 characters
    with tempfile.TemporaryDirectory(prefix="wse-", dir=short_folder, ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _connect(ray, address, folder)
        try:
            yield
        finally:
            ray.shutdown()


def imported_ray() -> Any:
    """Import Ray and return the module.

    Raises:
        BadInput: Ray is not installed.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise BadInput(
            "--engine ray: Ray is not installed here; pip install 'wse[ray]', or leave out --engine"
        ) from error
    return ray


def node_resources() -> list[Mapping[str, float]]:
    """Return the resources of each live machine, such as CPUs and ``memory`` in bytes."""
    return [node["Resources"] for node in imported_ray().nodes() if node["Alive"]]


def cluster_cpus() -> int:
    """Return the total number of CPUs in the cluster."""
    return sum(int(node.get("CPU", 0)) for node in node_resources())


def await_actors(actors: Sequence[Any], noun: str, *, min_actors: int) -> dict[Any, int]:
    """Wait until at least ``min_actors`` actors have started.

    Each actor must have a no-op method ``ping``, whose call returns when the actor has started.

    Args:
        actors: The actors.
        noun: What an actor represents, for error messages: "wafer" or "worker".
        min_actors: Number of actors to wait for.

    Returns:
        A dict from the reference to the ``ping`` call of each actor to the index of the actor. It
        also contains the actors that have not started yet.

    Raises:
        BadInput: Too few actors have started within `START_S` seconds, or an actor cannot start.
    """
    ray = imported_ray()
    pings = {actor.ping.remote(): number for number, actor in enumerate(actors)}
    started_pings, other_pings = ray.wait(list(pings), num_returns=min_actors, timeout=START_S)
    if len(started_pings) < min_actors:
        free, cpus = int(ray.available_resources().get("CPU", 0)), cluster_cpus()
        raise BadInput(
            f"--engine ray: {len(other_pings)} of {plural(len(actors), noun)} have not started in {START_S:.0f} s; "
            f"{free} of the cluster's {plural(cpus, 'CPU')} are free: wait until other work there has ended, or use "
            "another cluster"
        )
    for ping in started_pings:
        check_ping(ping, noun)
    return pings


def check_ping(ping: Any, noun: str) -> None:
    """Wait until an actor has started.

    Args:
        ping: Reference to a call to the actor's method ``ping``.
        noun: What the actor represents, for error messages.

    Raises:
        BadInput: The actor cannot start.
    """
    ray = imported_ray()
    try:
        ray.get(ping)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise BadInput(
            f"--engine ray: a {noun} cannot start ({reason}); install the same wse on all machines of the cluster"
        ) from error


def cpus_of_each(actors: int, bytes_each: int, nodes: Sequence[Mapping[str, float]]) -> int:
    """Return how many CPUs each of several identical actors can use.

    An actor is a process that emulates one wafer. The result is the maximum number for which all
    actors fit on the machines, given their CPUs and memory.

    Args:
        actors: Number of actors, one per wafer.
        bytes_each: Memory per actor in bytes.
        nodes: Resources of the machines, as returned by `node_resources`.

    Raises:
        BadInput: The cluster has fewer CPUs than actors.
        InsufficientMemory: The machines do not have enough memory for all actors.
    """
    cpus = [int(node.get("CPU", 0)) for node in nodes]
    if sum(cpus) < actors:
        raise BadInput(
            f"--engine ray: {plural(actors, 'wafer')} need a CPU each, but the cluster has {sum(cpus)} on "
            f"{plural(len(cpus), 'machine')}; use fewer --wafers, --engine local, or a larger cluster by --ray-address"
        )
    room = [int(node.get("memory", 0)) // max(1, bytes_each) for node in nodes]
    for cpus_each in range(max(cpus), 0, -1):
        if sum(min(n // cpus_each, places) for n, places in zip(cpus, room, strict=True)) >= actors:
            return cpus_each
    memory_list = ", ".join(in_bytes(int(node.get("memory", 0))) for node in nodes)
    raise InsufficientMemory(
        f"--engine ray: a wafer needs {in_bytes(bytes_each)} of its machine's memory, but the cluster has no room for "
        f"{plural(actors, 'wafer')} ({memory_list}); use more machines, or more --wafers, each of which stores less"
    )


def _connect(ray: Any, address: str | None, folder: str) -> None:
    """Connect to a Ray cluster, or start one on this computer.

    Args:
        ray: The imported library.
        address: HOST:PORT or "auto". None starts a cluster.
        folder: Folder for the files of a newly started cluster.

    Raises:
        BadInput: No cluster responds, its Ray version differs, or no cluster can be started.
    """
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    failed = "--engine ray: no cluster could be started on this computer", "leave out --engine, or give --ray-address"
    try:
        if address is None:
            sizes = {"num_cpus": cores(), "object_store_memory": OBJECT_STORE_BYTES}
            ray.init(address="local", include_dashboard=False, _temp_dir=folder, **sizes, **quiet)
            return
        failed = (
            f"--ray-address {address}: no cluster of this Ray answers there",
            "start one with ray start --head, set RAY_AUTH_MODE=token if it has a token, or leave out --ray-address",
        )
        if address != "auto":
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), CONNECT_S).close()
        ray.init(address=address, **quiet)
    except (
        OSError,
        OverflowError,
        ValueError,
        RuntimeError,
        AssertionError,
    ) as error:  # Ray's own errors are of these types
        reason = str(error).strip().partition("\n")[0]
        raise BadInput(f"{failed[0]} ({reason}); {failed[1]}") from error


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
