"""Study behind ``wse serve``: compiles a machine and answers requests at its predicted speed."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.errors import BadInput
from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.endpoint.texts import read_texts
from wse.studies.options.option import replace_options
from wse.studies.serve_sim.machines.machine import check_room, max_users_of
from wse.studies.serve_sim.prefill_machine import prefill_errors
from wse.studies.serve_sim.prepare import prepare_serve
from wse.studies.serve_sim.simulators import continuous_arguments
from wse.studies.serve_sim.study import random_drafts, serving_machine

MAX_PORT: Final = 65_535
MAX_ROUNDS_PER_S: Final = 4_000
"""Maximum number of rounds (one token per user) that are simulated per second of real time."""
GRACE_S: Final = 1
"""Seconds that open connections get to end after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEndpoint:
    """A machine whose model is compiled, with its simulation.

    Attributes:
        live: Simulation of the machine, at time 0.
        model: Name of the model.
        context: Maximum total number of tokens of a prompt and its answer.
        systems: Number and name of the machine's wafers or GPUs, as text.
        round_s: Seconds between two tokens of a single user.
    """

    live: LiveMachine
    model: str
    context: int
    systems: str
    round_s: float


def prepare_endpoint(request: EndpointRequest) -> PreparedEndpoint:
    """Compile the model of an endpoint for its machine, and create the simulation of the machine.

    The default number of batch slots is the maximum for the shortest requests. With longer
    requests, the KV-cache capacity limits how many of them are served concurrently.

    Raises:
        BadInput: An option is invalid, or an item that it names is missing or unusable.
        DoesNotFit: The model, or a request of the maximum length, does not fit.
    """
    service = request.service
    prepared_serve = prepare_serve(replace_options(service, requests=1))
    workload = prepared_serve.workload
    decode = serving_machine(prepared_serve, prepared_serve.decode)
    with prefill_errors(service):
        prefill = None if prepared_serve.prefill is None else serving_machine(prepared_serve, prepared_serve.prefill)
    longest_request = replace(
        workload, prompt_tokens=np.array([prepared_serve.context - 1]), new_tokens=np.ones(1, np.int64)
    )
    check_room(longest_request, decode.costs)
    shortest_requests = replace(workload, prompt_tokens=np.ones(1, np.int64), new_tokens=np.ones(1, np.int64))
    max_users = max_users_of(service.batches.max_users, shortest_requests, decode.costs, shares_prefixes=False)
    drafts = random_drafts(prepared_serve, decode)
    arguments = continuous_arguments(prepared_serve, decode, prefill, max_users, drafts)
    return PreparedEndpoint(
        live=LiveMachine(workload, **arguments),
        model=decode.model.name,
        context=prepared_serve.context,
        systems=decode.result.systems,
        round_s=decode.result.round_s,
    )


def serve_endpoint(request: EndpointRequest, on_ready: Callable[[PreparedEndpoint, str], None]) -> None:
    """Answer HTTP requests until the process is interrupted.

    Args:
        request: Options of the command, such as the machine to simulate and the port.
        on_ready: Called with the machine and the base URL of the API before the first request is
            answered.

    Raises:
        BadInput: An option is invalid, the port is in use, or a package is missing.
        DoesNotFit: The model, or a request of the maximum length, does not fit.
    """
    if not 0 <= request.port <= MAX_PORT:
        raise BadInput(f"--port {request.port}: give a number from 0 to {MAX_PORT}")
    if not 0 < request.speed < math.inf:
        raise BadInput(f"--speed {request.speed:g}: give a factor of more than 0")
    try:
        import uvicorn

        from wse.studies.endpoint.app import endpoint_app
        from wse.studies.endpoint.service import Service
    except ImportError as error:
        raise BadInput(f"serve: needs the package {error.name}; pip install 'wse[serve]'") from error
    texts = read_texts(request.text)
    listener = _listener(request.host, request.port)
    with listener:
        endpoint = prepare_endpoint(request)
        _check_pace(request.speed, endpoint.round_s)
        service = Service(
            endpoint.live, model=endpoint.model, context=endpoint.context, speed=request.speed, texts=texts
        )
        host, port = listener.getsockname()[:2]
        config = uvicorn.Config(
            endpoint_app(service), log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_S
        )
        on_ready(endpoint, f"http://{f'[{host}]' if ':' in host else host}:{port}/v1")
        uvicorn.Server(config).run(sockets=[listener])


def _check_pace(speed: float, round_s: float) -> None:
    """Check that this computer can simulate the machine as fast as requested.

    Args:
        speed: Seconds of the simulation per second of real time.
        round_s: Seconds between two tokens of a single user.

    Raises:
        BadInput: The machine would need more than `MAX_ROUNDS_PER_S` rounds per second.
    """
    rounds_per_s = speed / round_s
    if rounds_per_s > MAX_ROUNDS_PER_S:
        message = (
            f"--speed {speed:g}: a user would get {rounds_per_s:,.0f} tokens/s, but at most {MAX_ROUNDS_PER_S:,} can "
            f"be simulated and sent; give at most {MAX_ROUNDS_PER_S * round_s:.2g}"
        )
        raise BadInput(message)


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    Raises:
        BadInput: The address is in use or does not exist.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # connections that arrive before the server is ready wait
    except OSError as error:
        raise BadInput(f"--host {host} --port {port}: {error.strerror}; give another address or port") from error
    return listener
