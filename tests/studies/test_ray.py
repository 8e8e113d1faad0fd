"""Work on a real Ray cluster of two workers: the answers of this machine alone, also when a worker is killed."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
    "a batch": {"prompt": PROMPTS, "logits": True},
    "streams": {"prompt": PROMPTS, "verify_tokens": 1, "record": "activations=layers.*.attention,head"},
    "drawn": {"prompt": PROMPTS[1], "temperature": 0.8, "repetition_penalty": 1.2},
    "drafts": {"prompt": "The cat sat. The cat sat. The cat", "verify_tokens": 3, "mapping": "pipeline"},
}
GRID = {
    "model": "story",
    "prompt_len": 8,
    "new_tokens": [4, 8, 16],
    "mesh": ["12x12", "14x14"],
    "mapping": "region",
    "schedule": "baseline",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Ray, connected to a cluster of two CPUs on this machine."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wse[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_cluster, "cores", lambda: 2)
        with ray_cluster.ray_cluster(None):
            yield ray


@pytest.fixture(scope="module")
def table_here(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The table of the sweep by one process of this machine."""
    table = tmp_path_factory.mktemp("here") / "here.csv"
    wse.sweep(GRID, output=table, jobs=1)
    return table.read_bytes()


def named_request(name: str, **more: Any) -> RunRequest:
    return make_request(RunRequest, **(STORY | REQUESTS[name] | {"new_tokens": 5, "trace": None} | more))


CUT = """\
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
"""The story model's third layer shared by two wafers: its attention and half of its block, and the rest."""


def facts(result: RunResult) -> dict[str, Any]:
    """All but what this computer's own time is."""
    return {key: value for key, value in result.to_dict().items() if key not in ("emulation", "trace", "profile")}


def profile_bytes(result: RunResult) -> dict[str, int]:
    """The bytes of the steps of each kind, of all actors together."""
    assert result.profile.passes_s > 0
    return {row.name: row.bytes for row in result.profile.by_kind}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_run_is_that_of_one_process_with_its_trace(name: str, tmp_path: Path) -> None:
    traces = tmp_path / "here.h5", tmp_path / "ray.h5"
    timed = {"profile": True, "profile_output": tmp_path / "flame.json"}
    results = [
        run(named_request(name, trace=path, engine=engine, **timed))
        for path, engine in zip(traces, ("local", "ray"), strict=True)
    ]
    here, there = (profile_bytes(result) for result in results)
    assert here == there
    assert facts(results[0]) == facts(results[1])
    with open_trace(traces[0]) as here, open_trace(traces[1]) as there:
        assert here.header == there.header
        for column in ("links/words", "passes/start_cycle", "tokens/id", "tokens/pass", "tensors/op", "tensors/bytes"):
            np.testing.assert_array_equal(here.column(column), there.column(column))


@pytest.mark.usefixtures("cluster")
def test_wafers_that_share_a_layer_send_what_they_would_on_one_machine(tmp_path: Path) -> None:
    regions = tmp_path / "regions.toml"
    regions.write_text(CUT)
    more = {"mapping": str(regions), "schedule": "optimized", "logits": True}
    here, there = (run(named_request("drawn", engine=engine, **more)) for engine in ("local", "ray"))
    assert facts(here) == facts(there)
    assert here.system.wafers == 2


def kill(ray: Any, actor: Any) -> None:
    """End the process of an actor."""
    os.kill(ray.get(actor.__ray_call__.remote(lambda worker: os.getpid())), signal.SIGKILL)


def test_a_lost_wafer_is_named_and_its_run_goes_on(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that actors left is one that this machine's own engine goes on from."""
    kept, passes, verify = tmp_path / "run.checkpoint", list[int](), RayEngine.verify

    def verify_some(engine: RayEngine, tokens: Any, user: int = 0) -> list[int]:
        passes.append(user)
        if len(passes) == 4:
            kill(cluster, engine._actors.by_wafer[1])
        return verify(engine, tokens, user)

    monkeypatch.setattr(RayEngine, "verify", verify_some)
    request = named_request("streams", record=None, checkpoint=kept, checkpoint_every=0.0)
    message = refusal(WorkerLost, run, replace(request, engine="ray"))
    assert message.startswith("wafer 1: its process has ended")
    assert message.endswith(f"the same command resumes from {kept}")
    resumed = run(request)
    assert resumed.emulation.passes_again == 2 + 3, "of prompts, and of generation"
    assert facts(resumed) == facts(run(replace_options(request, checkpoint=None)))


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def workers_of(name: str) -> list[int]:
    """The processes of actors of a class of this process's cluster, whose parent is a child of this process."""
    titles = {path.parent.name: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()}
    actors = [int(number) for number, title in titles.items() if title.startswith(f"ray::{name}".encode())]
    return [actor for actor in actors if parent_of(parent_of(actor)) == os.getpid()]


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.usefixtures("cluster")
def test_a_sweep_is_that_of_one_machine_though_a_worker_is_killed(tmp_path: Path, table_here: bytes) -> None:
    killed = list[int]()

    def kill_one(done: int, total: int, failed: str) -> None:
        if done == 2:
            killed.append(workers_of("RayWorker")[0])
            os.kill(killed[0], signal.SIGKILL)

    result = wse.sweep(GRID, output=tmp_path / "ray.csv", engine="ray", on_progress=kill_one)
    assert (result.settings_failed, result.jobs, len(killed)) == (0, 2, 1)
    assert (tmp_path / "ray.csv").read_bytes() == table_here


@pytest.mark.usefixtures("cluster")
def test_a_comparison_is_that_of_one_machine() -> None:
    asked: dict[str, Any] = {"mesh": "24x24", "wafers": (1, 2), "mapping": "region", "schedule": "baseline"}
    asked |= {"prompt_len": 8, "new_tokens": 8}
    assert wse.compare("story", **asked, engine="ray").to_dict() == wse.compare("story", **asked, jobs=1).to_dict()


class Holder:
    """An actor that holds CPUs, as other work on a cluster does."""

    def ping(self) -> None:
        """Answer, once the process is there."""


@contextmanager
def held(ray: Any, cpus: int) -> Iterator[None]:
    """Some of the cluster's CPUs held by other work."""
    holder = ray.remote(Holder).options(num_cpus=cpus).remote()
    ray.get(holder.ping.remote())
    try:
        yield
    finally:
        ray.kill(holder)


def test_others_who_hold_all_cpus_are_named(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "START_S", 2.0)
    has = "have not started in 2 s; 0 of the cluster's 2 CPUs are free"
    with held(cluster, 2), pytest.raises(BadInput, match=f"^--engine ray: 2 of 2 workers {has}"):
        wse.sweep(GRID, output=tmp_path / "t.csv", engine="ray")


def test_workers_for_which_there_is_a_cpu_do_the_work_of_all(cluster: Any, tmp_path: Path, table_here: bytes) -> None:
    with held(cluster, 1):
        result = wse.sweep(GRID, output=tmp_path / "ray.csv", engine="ray")
        assert result.settings_failed == 0
    assert (tmp_path / "ray.csv").read_bytes() == table_here


class Broken(Holder):
    """An actor that finds less on its machine than it needs."""

    def __init__(self) -> None:
        message = "No module named 'wse'"
        raise ModuleNotFoundError(message)


def test_actors_that_cannot_start_are_told_with_their_reason(cluster: Any) -> None:
    actor = cluster.remote(Broken).remote()
    says = refusal(BadInput, partial(ray_cluster.await_actors, min_actors=1), [actor], "worker")
    assert "a worker cannot start (ModuleNotFoundError: No module named 'wse')" in says


@pytest.mark.usefixtures("cluster")
def test_what_the_cluster_has_not_is_refused_in_one_line(tmp_path: Path) -> None:
    many = named_request("a batch", wafers=3, engine="ray")
    assert "3 wafers need a CPU each, but the cluster has 2 on 1 machine" in refusal(BadInput, run, many)
    spanning = named_request("a batch", mapping="tensor", engine="ray")
    assert "--mapping tensor has regions that span wafers; use --mapping region" in refusal(BadInput, run, spanning)
    with pytest.raises(BadInput, match=r"^--jobs 3: the cluster has 2 CPUs; give fewer, or a larger one$"):
        wse.sweep(GRID, output=tmp_path / "t.csv", engine="ray", jobs=3)


def test_without_ray_one_line_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "Ray is not installed here" in refusal(BadInput, run, named_request("a batch", engine="ray"))


def test_an_address_where_nothing_answers_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wse[ray]'")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    message = refusal(BadInput, run, named_request("a batch", engine="ray", ray_address="127.0.0.1:9"))
    assert message.startswith("--ray-address 127.0.0.1:9: no cluster of this Ray answers there (")


def test_actors_get_all_cpus_that_their_machines_have_room_for() -> None:
    nodes = [{"CPU": 16.0, "memory": 100.0}, {"CPU": 4.0, "memory": 1000.0}, {"memory": 1000.0}]
    given = [ray_cluster.cpus_of_each(actors, 40, nodes) for actors in (1, 2, 3, 4, 5, 6)]
    assert given == [16, 8, 4, 2, 1, 1], "two on the first machine, which has no memory for a third"
    assert "needs 40 B of its machine's memory" in refusal(InsufficientMemory, ray_cluster.cpus_of_each, 7, 40, nodes)
