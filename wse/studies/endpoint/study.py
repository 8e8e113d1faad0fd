"""Study behind ``wse serve``: prepares the simulated machines of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse.reports.terminal import plural
from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.live_replicas import LiveReplicas
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.options.option import replace_options
from wse.studies.serve_sim.machines.compile_service import compile_service
from wse.studies.serve_sim.options import LEAST_LOADED
from wse.studies.serve_sim.prepare import prepare_serve


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
    prepared_serve = prepare_serve(replace_options(service, requests=1, prefix_tokens=0))
    workload = prepared_serve.workload
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
