"""Compilation of the machines of a service."""

from __future__ import annotations

from functools import cache, partial

from wse.errors import BadInput, DoesNotFit
from wse.serving.simulation.capacity import capacity_requests_per_s
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.workload import Workload
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout
from wse.studies.serve_sim.machines.gpus import gpu_machine
from wse.studies.serve_sim.machines.layouts import service_layout
from wse.studies.serve_sim.machines.machine import ServingMachine, check_room, max_users_of
from wse.studies.serve_sim.machines.service_machines import ServiceMachines
from wse.studies.serve_sim.machines.wafers import wafer_machine
from wse.studies.serve_sim.prefill_machine import Placement, prefill_errors
from wse.studies.serve_sim.prepare import PreparedServe


def compile_service(
    prepared_serve: PreparedServe, longest_requests: Workload, shortest_requests: Workload
) -> ServiceMachines:
    """Compile the machines of a service and time their passes.

    Args:
        prepared_serve: The validated serving request.
        longest_requests: Requests. The KV cache must have room for the longest one alone.
        shortest_requests: Requests. The shortest one determines the maximum number of users.

    Raises:
        BadInput: The requested number of concurrent users is too large, a memory tier has no room,
            or the KV caches of all users do not fit.
        DoesNotFit: The model, or the longest request, does not fit.
    """
    request, placement = prepared_serve.request, prepared_serve.decode
    prefill = None
    if prepared_serve.prefill is not None:
        with prefill_errors(request):
            prefill = _prefill_machine(prepared_serve, prepared_serve.prefill)
    machines_with = partial(_service_machines, prepared_serve, prefill, longest_requests)
    if isinstance(placement, PreparedGpuEstimate):
        return machines_with(shortest_requests, gpu_machine(prepared_serve, placement))
    timed_machine = cache(partial(wafer_machine, prepared_serve))  # `capacity_of` times the chosen layout, too
    typical = prepared_serve.typical

    def capacity_of(layout: ChosenLayout) -> float:
        """Return the simulated capacity of a layout in requests per second, or 0 if the service does not fit on it."""
        try:
            machines = machines_with(typical, timed_machine(layout))
        except (BadInput, DoesNotFit):
            return 0.0
        return capacity_requests_per_s(typical, machines.max_users, machines.simulator(1))

    simulate = capacity_of if typical.lengths_vary else None
    return machines_with(shortest_requests, timed_machine(service_layout(placement, simulate)))


def _service_machines(
    prepared_serve: PreparedServe,
    prefill: ServingMachine | None,
    longest_requests: Workload,
    shortest_requests: Workload,
    decode: ServingMachine,
) -> ServiceMachines:
    """Combine the machines of a service, after a check that requests fit on the decode machine.

    Args:
        prepared_serve: The serving request.
        prefill: The machine that reads prompts; None if the decode machine reads them.
        longest_requests: Requests. The KV cache must have room for the longest one alone.
        shortest_requests: Requests. The shortest one determines the maximum number of users.
        decode: The decode machine.
    """
    request, acceptance = prepared_serve.request, prepared_serve.decode.acceptance
    check_room(longest_requests, decode.costs)
    max_users = max_users_of(
        request.batches.max_users, shortest_requests, decode.costs, shares_prefixes=request.keeps_prefixes
    )
    drafts = None
    if acceptance is not None and decode.drafts is not None and decode.drafts.draft_tokens:
        # Draft tokens beyond the last position with a known acceptance are never accepted.
        acceptances = [choices[0] for choices in acceptance.choice_acceptances[: decode.drafts.draft_tokens]]
        drafts = Drafts(acceptances=tuple(acceptances), seed=request.traffic.seed)
    return ServiceMachines(prepared=prepared_serve, decode=decode, prefill=prefill, drafts=drafts, max_users=max_users)


def _prefill_machine(prepared_serve: PreparedServe, placement: Placement) -> ServingMachine:
    """Compile and time the passes of the machine that reads prompts."""
    if isinstance(placement, PreparedGpuEstimate):
        return gpu_machine(prepared_serve, placement)
    return wafer_machine(prepared_serve, choose_layout(placement))
