"""Tests of the study behind ``wse serve``: refused options, the listening address, and the compiled machine."""

import json
import socket
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

import wse
from tests.support.plain_workload import plain_workload
from wse.errors import BadInput, DoesNotFit
from wse.serving.simulation.continuous.simulate import simulate_continuous
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.endpoint.server import Endpoint
from wse.studies.endpoint.study import prepare_endpoint
from wse.studies.options.option import make_request, options_of

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
    assert offered == prefill | {"batch", "objective", "routing", "max_users", "chunk", "host", "port", "speed", "text"}


def test_wrong_options_are_refused() -> None:
    assert refusal(port=70_000).startswith("--port 70000")
    assert refusal(speed=0.0).startswith("--speed 0")


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
def test_machine_equals_that_of_serve_sim(options: dict[str, Any]) -> None:
    result = wse.serve_sim(**options, rate=50.0, requests=100, arrivals="constant")
    endpoint = prepare_endpoint(make_request(EndpointRequest, **options))
    assert (endpoint.model, endpoint.context) == ("story", 128)
    simulation = endpoint.live.machine
    lengths = np.full(100, 64)
    work = plain_workload(np.arange(100) / 50.0, lengths, lengths)
    outcome = simulate_continuous(work, simulation.costs, simulation.policy)
    assert result.served is not None
    assert (outcome.first_s - work.arrival_s).mean() == pytest.approx(result.served.all.ttft.mean)
    assert outcome.makespan_s == pytest.approx(result.served.makespan_s)
