"""Tests of the study behind ``wse serve``: refused options, the listening address, and the compiled machine."""

import json
import socket
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

import wse
from wse.errors import BadInput, DoesNotFit
from wse.serving.simulation.outcome import SimulationOutcome
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.endpoint.server import Endpoint, prepare_endpoint
from wse.studies.options.option import make_request, options_of
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.study import serve

LENGTHS = {"model": "story", "prompt_len": 64, "new_tokens": 64}
WAFER = LENGTHS | {"mesh": "24x24", "mapping": "region", "schedule": "baseline"}
GPU = LENGTHS | {"gpu": "h100", "gpus": 1}


def refusal(machine: dict[str, Any] = WAFER, **options: Any) -> str:
    """Return the message with which an endpoint is refused."""
    with pytest.raises(BadInput) as error:
        Endpoint(make_request(EndpointRequest, **machine, **options))
    return str(error.value)


def test_endpoint_of_the_python_function_answers_until_it_is_closed() -> None:
    pytest.importorskip("uvicorn", reason="needs pip install 'wse[serve]'")
    pytest.importorskip("prometheus_client", reason="needs pip install 'wse[serve]'")
    with wse.serve(**GPU, port=0, speed="0.5") as endpoint:
        with urlopen(f"{endpoint.address}/models", timeout=10) as response:
            (model,) = json.load(response)["data"]
        assert (model["id"], model["max_model_len"]) == (endpoint.model, endpoint.context) == ("story", 128)
    with pytest.raises(URLError):
        urlopen(f"{endpoint.address}/models", timeout=10)


def test_serving_options_exclude_those_that_clients_choose() -> None:
    offered = {name for name, field in options_of(EndpointRequest).items() if field.option.panel == "Serving"}
    prefill = {"prefill", "prefill_wafer", "prefill_gpu", "prefill_stack", "prefill_wafers", "prefill_gpus"}
    prefill |= {"prefill_mesh", "kv_bandwidth", "kv_latency"}
    machine = {"batch", "objective", "routing", "max_users", "chunk", "replicas", "dispatch"}
    prefixes = {"prefix_cache", "kv_tiers", "kv_wafers", "kv_host_memory"}
    assert offered == prefill | machine | prefixes | {"host", "port", "speed", "text"}


def test_wrong_options_are_refused() -> None:
    assert refusal(port=70_000).startswith("--port 70000")
    assert refusal(speed=0.0).startswith("--speed 0")
    assert refusal(port=0, replicas=0).startswith("--replicas 0")


def test_tiers_are_refused_where_serve_sim_refuses_them() -> None:
    with pytest.raises(BadInput, match="--kv-tiers sram,host: only wafers have the tier sram"):
        prepare_endpoint(make_request(EndpointRequest, **GPU, kv_tiers="sram,host"))
    with pytest.raises(BadInput, match="--kv-tiers: needs --prefill same"):
        prepare_endpoint(make_request(EndpointRequest, **WAFER, kv_tiers="host", prefill="own"))


def test_used_port_and_missing_text_file_are_refused() -> None:
    pytest.importorskip("uvicorn", reason="needs pip install 'wse[serve]'")
    pytest.importorskip("prometheus_client", reason="needs pip install 'wse[serve]'")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert refusal(port=port).startswith(f"--host 127.0.0.1 --port {port}")
    assert refusal(GPU, port=0, speed=1e4).startswith("--speed 10000: a user would get")
    assert refusal(port=0, text="no-such-file.txt").startswith("--text no-such-file.txt")


def test_machine_without_room_for_the_longest_request_is_refused() -> None:
    options = {"model": "llama-3.1-70b", "dtype": "int4", "gpu": "h100", "gpus": 1}
    assert prepare_endpoint(make_request(EndpointRequest, **options, context=90_000)).context == 90_000
    with pytest.raises(DoesNotFit, match="131,072 tokens"):
        prepare_endpoint(make_request(EndpointRequest, **options, context=131_072))


@pytest.mark.parametrize("options", [pytest.param(WAFER, marks=pytest.mark.slow), GPU], ids=["wafer", "gpu"])
@pytest.mark.parametrize("dispatch", ["least-loaded", "round-robin"])
def test_times_equal_those_of_serve_sim(options: dict[str, Any], dispatch: str) -> None:
    """Requests of two texts, whose first 48 tokens are shared, go to two replicas that keep prefixes."""
    shared = options | {"replicas": 2, "dispatch": dispatch, "prefix_cache": True, "prefix_tokens": 48}
    outcome, cached_tokens, _ = served_twice(shared, {"load": 0.7, "requests": 200, "prefixes": 2, "seed": 3})
    assert cached_tokens == outcome.prefixes.cached_tokens > 100 * 48


@pytest.mark.parametrize("replicas", [1, 2])
def test_times_with_a_host_tier_equal_those_of_serve_sim(replicas: int) -> None:
    """The KV cache of a replica has room for about two thirds of its 300 texts, and host memory stores the rest."""
    tiers = {"mesh": "40x40", "region": "24x24", "kv_tiers": "host", "prefix_tokens": 48, "replicas": replicas}
    traffic = {"rate": 300.0 * replicas, "requests": 1_000 * replicas, "prefixes": 300 * replicas, "seed": 3}
    outcome, cached_tokens, loaded_tokens = served_twice(WAFER | tiers, traffic)
    assert cached_tokens == outcome.prefixes.cached_tokens > 100 * 48
    assert loaded_tokens == outcome.prefixes.loaded_tokens[0] > 50 * 48


def served_twice(options: dict[str, Any], traffic: dict[str, Any]) -> tuple[SimulationOutcome, int, int]:
    """Simulate requests that share their first 48 tokens, and serve the same arrivals with an endpoint.

    Times of first and last tokens must be equal.

    Args:
        options: Options of the machines.
        traffic: Options of the requests.

    Returns:
        The simulation, and how many prompt tokens of the endpoint were in KV caches or loaded from tiers.
    """
    outcome = serve(make_request(ServeRequest, **options, **traffic)).outcome
    assert outcome is not None
    live = prepare_endpoint(make_request(EndpointRequest, **options)).live
    work, first_s, last_s = outcome.workload, dict[int, float](), dict[int, float]()
    for arrival_s, text in zip(work.arrival_s.tolist(), work.prefix.tolist(), strict=True):
        first_s[live.add(arrival_s, 64, 64, [(text, block) for block in range(3)])] = 0.0
    live.run_until(1e6)
    for due in live.pop_tokens(np.inf):
        last_s[due.request] = due.at_s
        first_s[due.request] = first_s[due.request] or due.at_s
    assert list(first_s.values()) == pytest.approx(outcome.first_s.tolist())
    assert [last_s[request] for request in first_s] == pytest.approx(outcome.end_s.tolist())
    records = [live.record_of(request) for request in first_s]
    cached_tokens = sum(record.cached_tokens[request] for record, request in records)
    return outcome, cached_tokens, sum(record.loaded_tokens[request] for record, request in records)
