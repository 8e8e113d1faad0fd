"""Tests of ``engine="ray"`` on a real cluster of two CPUs: same results as local runs, also if a worker dies."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wse
from tests.hardware.helpers import refusal
from wse.errors import BadInput, InsufficientMemory, WorkerLost
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.ray.ray_engine import RayEngine
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.studies.run.study import run
from wse.studies.workers import ray_cluster
from wse_traces import open_trace

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

PROMPTS = ("One day", "The little fox went out to play in")
STORY: dict[str, Any] = {
    "model": "story",
    "mesh": "8x24",
    "dtype": "float32",
    "wafers": 2,
    "wafer": "wse2",
    "software": "tuned",
    "mapping": "region",
    "schedule": "baseline",
}
REQUESTS: dict[str, dict[str, Any]] = {
    "sampled": {"prompt": PROMPTS, "logits": True, "temperature": 0.8, "repetition_penalty": 1.2},
    "streams": {"prompt": PROMPTS, "verify_tokens": 1, "record": "activations=layers.*.attention,head"},
    "drafts": {"prompt": "The cat sat. The cat sat. The cat", "verify_tokens": 3, "mapping": "pipeline"},
}
GRID = {
    "model": "story",
    "prompt_len": 8,
    "new_tokens": [4, 8],
    "mesh": ["12x12", "14x14"],
    "mapping": "region",
    "schedule": "baseline",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start Ray with a cluster of two CPUs on this machine, and return the module ``ray``."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wse[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_cluster, "cores", lambda: 2)
        with ray_cluster.ray_cluster(None):
            yield ray


@pytest.fixture(scope="module")
def local_table(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the table of the sweep GRID that one local process computes."""
    table = tmp_path_factory.mktemp("local") / "local.csv"
    wse.sweep(GRID, output=table, jobs=1)
    return table.read_bytes()


def named_request(name: str, **more: Any) -> RunRequest:
    """Return the request REQUESTS[name] for five new tokens, with further options."""
    return make_request(RunRequest, **(STORY | REQUESTS[name] | {"new_tokens": 5, "trace": None} | more))


SHARED_LAYER = """\
[[regions]]
wafer = 0
row = 0
col = 0
rows = 8
cols = 24
layers = [0, 2]
parts = [0, 4]

[[regions]]
wafer = 1
row = 0
col = 0
rows = 8
cols = 24
layers = [2, 4]
parts = [5, 8]
"""
"""A mapping file in which two wafers share the third layer.

The first wafer has parts 0 to 4 of the layer, which include its attention; the second wafer has the rest.
"""


def facts(result: RunResult) -> dict[str, Any]:
    """Return the report without the keys that depend on the speed of this computer or on file names."""
    return {key: value for key, value in result.to_dict().items() if key not in ("emulation", "trace", "profile")}


def profile_bytes(result: RunResult) -> dict[str, int]:
    """Return the bytes read and written by the steps of each type, summed over all actors."""
    assert result.profile.passes_s > 0
    return {row.name: row.bytes for row in result.profile.by_kind}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", REQUESTS)
def test_run_and_its_trace_equal_those_of_the_local_engine(name: str, tmp_path: Path) -> None:
    traces = tmp_path / "local.h5", tmp_path / "ray.h5"
    timed = {"profile": True, "profile_output": tmp_path / "flame.json"}
    results = [
        run(named_request(name, trace=path, engine=engine, **timed))
        for path, engine in zip(traces, ("local", "ray"), strict=True)
    ]
    local_bytes, ray_bytes = (profile_bytes(result) for result in results)
    assert local_bytes == ray_bytes
    assert facts(results[0]) == facts(results[1])
    with open_trace(traces[0]) as local_trace, open_trace(traces[1]) as ray_trace:
        assert local_trace.header == ray_trace.header
        for column in ("links/words", "passes/start_cycle", "tokens/id", "tokens/pass", "tensors/op", "tensors/bytes"):
            np.testing.assert_array_equal(local_trace.column(column), ray_trace.column(column))


@pytest.mark.usefixtures("cluster")
def test_run_with_a_layer_on_two_wafers_equals_that_of_the_local_engine(tmp_path: Path) -> None:
    regions = tmp_path / "regions.toml"
    regions.write_text(SHARED_LAYER)
    more = {"mapping": str(regions), "schedule": "optimized", "logits": True}
    local_result, ray_result = (run(named_request("sampled", engine=engine, **more)) for engine in ("local", "ray"))
    assert facts(local_result) == facts(ray_result)
    assert local_result.system.wafers == 2


def kill(ray: Any, actor: Any) -> None:
    """End the process of an actor."""
    os.kill(ray.get(actor.__ray_call__.remote(lambda worker: os.getpid())), signal.SIGKILL)


def test_lost_wafer_is_named_and_its_run_resumes(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local engine resumes from the checkpoint that the Ray actors have written."""
    checkpoint, passes, verify = tmp_path / "run.checkpoint", list[int](), RayEngine.verify

    def verify_until_killed(engine: RayEngine, tokens: Any, user: int = 0) -> list[int]:
        passes.append(user)
        if len(passes) == 4:
            kill(cluster, engine._actors.by_wafer[1])
        return verify(engine, tokens, user)

    monkeypatch.setattr(RayEngine, "verify", verify_until_killed)
    request = named_request("streams", record=None, checkpoint=checkpoint, checkpoint_every=0.0)
    message = refusal(WorkerLost, run, replace_options(request, engine="ray"))
    assert message.startswith("wafer 1: its process has ended")
    assert message.endswith(f"the same command resumes from {checkpoint}")
    resumed = run(request)
    assert resumed.emulation.passes_again == 2 + 3, "two prompt passes and three passes of generation"
    assert facts(resumed) == facts(run(replace_options(request, checkpoint=None)))


def parent_of(process: int) -> int:
    """Return the process id of the parent of a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def workers_of(name: str) -> list[int]:
    """Return the process ids of the actors of a class in the cluster of this process.

    Their grandparent is this process, so actors of other clusters are left out.
    """
    titles = {path.parent.name: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()}
    actors = [int(number) for number, title in titles.items() if title.startswith(f"ray::{name}".encode())]
    return [actor for actor in actors if parent_of(parent_of(actor)) == os.getpid()]


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.usefixtures("cluster")
def test_sweep_with_a_killed_worker_equals_the_local_one(tmp_path: Path, local_table: bytes) -> None:
    killed = list[int]()

    def kill_one(done: int, total: int, failed: str) -> None:
        if done == 2:
            killed.append(workers_of("RayWorker")[0])
            os.kill(killed[0], signal.SIGKILL)

    result = wse.sweep(GRID, output=tmp_path / "ray.csv", engine="ray", on_progress=kill_one)
    assert (result.settings_failed, result.jobs, len(killed)) == (0, 2, 1)
    assert (tmp_path / "ray.csv").read_bytes() == local_table


@pytest.mark.usefixtures("cluster")
def test_comparison_equals_the_local_one() -> None:
    options: dict[str, Any] = {"mesh": "16x16", "wafers": (1, 2), "mapping": "region", "schedule": "baseline"}
    options |= {"prompt_len": 8, "new_tokens": 8}
    assert wse.compare("story", **options, engine="ray").to_dict() == wse.compare("story", **options, jobs=1).to_dict()


class OtherWork:
    """An actor that occupies CPUs, as other work on a cluster does."""

    def ping(self) -> None:
        """Return as soon as the process has started."""


@contextmanager
def occupied_cpus(ray: Any, cpus: int) -> Iterator[None]:
    """Occupy CPUs of the cluster with other work inside the context."""
    actor = ray.remote(OtherWork).options(num_cpus=cpus).remote()
    ray.get(actor.ping.remote())
    try:
        yield
    finally:
        ray.kill(actor)


def test_sweep_without_free_cpus_is_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "START_S", 2.0)
    message = "have not started in 2 s; 0 of the cluster's 2 CPUs are free"
    with occupied_cpus(cluster, 2), pytest.raises(BadInput, match=f"^--engine ray: 2 of 2 workers {message}"):
        wse.sweep(GRID, output=tmp_path / "t.csv", engine="ray")


def test_sweep_runs_on_the_free_cpus(cluster: Any, tmp_path: Path, local_table: bytes) -> None:
    with occupied_cpus(cluster, 1):
        result = wse.sweep(GRID, output=tmp_path / "ray.csv", engine="ray")
        assert result.settings_failed == 0
    assert (tmp_path / "ray.csv").read_bytes() == local_table


class WithoutPackage(OtherWork):
    """An actor whose machine has no package wse."""

    def __init__(self) -> None:
        raise ModuleNotFoundError("No module named 'wse'")


def test_actors_that_cannot_start_are_reported_with_the_reason(cluster: Any) -> None:
    actor = cluster.remote(WithoutPackage).remote()
    message = refusal(BadInput, partial(ray_cluster.await_actors, min_actors=1), [actor], "worker")
    assert "a worker cannot start (ModuleNotFoundError: No module named 'wse')" in message


@pytest.mark.usefixtures("cluster")
def test_request_that_exceeds_the_cluster_is_refused(tmp_path: Path) -> None:
    too_many_wafers = named_request("sampled", wafers=3, engine="ray")
    assert "3 wafers need a CPU each, but the cluster has 2 on 1 machine" in refusal(BadInput, run, too_many_wafers)
    spanning = named_request("sampled", mapping="tensor", engine="ray")
    assert "--mapping tensor has regions that span wafers; use --mapping region" in refusal(BadInput, run, spanning)
    with pytest.raises(BadInput, match=r"^--jobs 3: the cluster has 2 CPUs; give fewer, or a larger one$"):
        wse.sweep(GRID, output=tmp_path / "t.csv", engine="ray", jobs=3)


def test_missing_ray_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "Ray is not installed here" in refusal(BadInput, run, named_request("sampled", engine="ray"))


def test_address_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wse[ray]'")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    message = refusal(BadInput, run, named_request("sampled", engine="ray", ray_address="127.0.0.1:9"))
    assert message.startswith("--ray-address 127.0.0.1:9: no cluster of this Ray answers there (")


def test_actors_share_the_cpus_of_machines_with_enough_memory() -> None:
    nodes = [{"CPU": 16.0, "memory": 100.0}, {"CPU": 4.0, "memory": 1000.0}, {"memory": 1000.0}]
    cpus = [ray_cluster.cpus_of_each(actors, 40, nodes) for actors in (1, 2, 3, 4, 5, 6)]
    assert cpus == [16, 8, 4, 2, 1, 1], "the first machine has memory for two actors only"
    assert "needs 40 B of its machine's memory" in refusal(InsufficientMemory, ray_cluster.cpus_of_each, 7, 40, nodes)
