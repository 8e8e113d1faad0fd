"""Endpoint: an HTTP server that answers with the tokens of a predicted machine."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, Final

import numpy as np

from wse.errors import BadInput
from wse.reports.number_text import plural
from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.live_replicas import LiveReplicas
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.endpoint.texts import read_texts
from wse.studies.options.option import replace_options
from wse.studies.serve_sim.machines.compile_service import compile_service
from wse.studies.serve_sim.options import LEAST_LOADED
from wse.studies.serve_sim.prepare import prepare_serve

MAX_PORT: Final = 65_535
MAX_ROUNDS_PER_S: Final = 4_000
"""Maximum number of rounds (one token per user) that are simulated per second of real time."""
GRACE_S: Final = 1
"""Seconds that open connections get to end when the endpoint is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEndpoint:
    """A machine whose model is compiled, with the simulation of its replicas.

    Attributes:
        live: Simulation of the replicas, at time 0.
        model: Name of the model.
        context: Maximum total number of tokens of a prompt and its answer.
        systems: Number and name of the wafers or GPUs of all replicas, as text.
        round_s: Seconds between two tokens of a single user.
    """

    live: LiveReplicas
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
    service, replicas = request.service, request.replicas
    prefix_tokens = service.base.workload.prefix_tokens or 0
    several_prefixes = 2  # clients may send any number of them, so the layout has room for whole prompts
    prepared_serve = prepare_serve(
        replace_options(service, requests=1, prefix_tokens=prefix_tokens, prefixes=several_prefixes)
    )
    workload = prepared_serve.workload.without_prefixes()  # clients send the prefixes
    one_token = np.ones(1, np.int64)
    machines = compile_service(
        prepared_serve,
        longest_requests=replace(workload, prompt_tokens=np.array([prepared_serve.context - 1]), new_tokens=one_token),
        shortest_requests=replace(workload, prompt_tokens=one_token, new_tokens=one_token),
    )
    drafts, arguments, decode = machines.drafts, machines.continuous_arguments(), machines.decode
    live_machines = [LiveMachine(workload, **arguments | {"drafts": _own_drafts(drafts, n)}) for n in range(replicas)]
    systems = decode.result.systems_of(replicas)
    return PreparedEndpoint(
        live=LiveReplicas(live_machines, least_loaded=service.batches.dispatch == LEAST_LOADED),
        model=decode.model.name,
        context=prepared_serve.context,
        systems=systems if replicas == 1 else f"{systems} ({plural(replicas, 'replica')})",
        round_s=decode.result.round_s,
    )


def _own_drafts(drafts: Drafts | None, replica: int) -> Drafts | None:
    """Return the drafts of one replica, whose random numbers differ from those of all others."""
    return None if drafts is None else replace(drafts, seed=drafts.seed + (replica << 64))


class Endpoint:
    """An HTTP server with the OpenAI API that sends tokens at the speed of a predicted machine.

    It accepts connections as soon as it exists, and answers them during `run`, or from `start` on.
    As a context manager, it is closed at the end of the ``with`` block.

    Attributes:
        address: Base URL of the API, such as ``http://127.0.0.1:8000/v1``.
        model: Name of the model, which requests must state.
        context: Maximum total number of tokens of a prompt and its answer.
        systems: Number and name of the wafers or GPUs of all replicas, such as "4 wse3 wafers".
    """

    def __init__(self, request: EndpointRequest) -> None:
        """Compile the model for the machine, and listen at the address.

        Raises:
            BadInput: An option is invalid, the port is in use, or a package is missing.
            DoesNotFit: The model, or a request of the maximum length, does not fit.
        """
        if not 0 <= request.port <= MAX_PORT:
            raise BadInput(f"--port {request.port}: give a number from 0 to {MAX_PORT}")
        if request.replicas < 1:
            raise BadInput(f"--replicas {request.replicas}: give a number of at least 1")
        if not 0 < request.speed < math.inf:
            raise BadInput(f"--speed {request.speed:g}: give a factor of more than 0")
        try:
            import uvicorn

            from wse.studies.endpoint.app import endpoint_app
            from wse.studies.endpoint.service import Service
        except ImportError as error:
            raise BadInput(f"serve: needs the package {error.name}; pip install 'wse[serve]'") from error
        texts = read_texts(request.text)
        self._thread: Thread | None = None
        self._listener = _listener(request.host, request.port)
        try:
            machine = prepare_endpoint(request)
            _check_pace(request.speed, machine.round_s)
            self.model, self.context, self.systems = machine.model, machine.context, machine.systems
            service = Service(machine.live, model=self.model, context=self.context, speed=request.speed, texts=texts)
            app = endpoint_app(service)
            config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_S)
            self._server = uvicorn.Server(config)
        except BaseException:
            self._listener.close()
            raise
        host, port = self._listener.getsockname()[:2]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"

    def run(self) -> None:
        """Answer requests until the process is interrupted."""
        self._server.run(sockets=[self._listener])

    def start(self) -> None:
        """Answer requests in another thread, until `close`."""
        self._thread = Thread(target=self.run, name=f"wse serve {self.address}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and free the port. Streams that are open get up to one second to end."""
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        self._listener.close()

    def __enter__(self) -> Endpoint:
        """Return the endpoint itself."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close the endpoint."""
        self.close()


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
        raise BadInput(
            f"--speed {speed:g}: a user would get {rounds_per_s:,.0f} tokens/s, but at most {MAX_ROUNDS_PER_S:,} can "
            f"be simulated and sent; give at most {MAX_ROUNDS_PER_S * round_s:.2g}"
        )


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
