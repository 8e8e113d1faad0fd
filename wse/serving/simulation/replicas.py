"""Simulation of one machine, or of replicas: identical machines that share the requests of one workload.

Each request goes to one machine when it arrives. Requests go to the machines round-robin, or to the
machine with the fewest requests in flight. Among machines with the same number in flight, the one
that has received the fewest requests is chosen. The dispatcher knows the load of each machine at
the end of its last round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from typing import Protocol

import numpy as np

from wse.reports.progress import ignore
from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.costs.pass_costs import PassCosts
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.kv.prefixes import PrefixUse
from wse.serving.simulation.outcome import SUMS, SimulationOutcome
from wse.serving.simulation.progress import OnDone, reporter
from wse.serving.simulation.workload import Workload


class MakeMachine(Protocol):
    """Type of a function that creates one of several identical machines, for a part of the requests.

    The function calls `ContinuousMachine` with the same costs and the same policy each time.
    """

    def __call__(self, workload: Workload, *, requests: Sequence[int], on_done: OnDone = ignore) -> ContinuousMachine:
        """Create the machine.

        Args:
            workload: The requests of all machines.
            requests: Indices of the requests that this machine serves.
            on_done: Function that is called periodically with the number of requests that have
                left.
        """


def simulate_continuous(
    workload: Workload,
    costs: PassCosts,
    policy: ContinuousPolicy,
    *,
    prefill: PrefillMachine | None = None,
    drafts: Drafts | None = None,
    on_done: OnDone = ignore,
) -> SimulationOutcome:
    """Simulate a machine that serves all requests of a workload, and return their times.

    The arguments are the same as for `ContinuousMachine`.
    """
    machine = ContinuousMachine(workload, costs, policy, prefill=prefill, drafts=drafts, on_done=on_done)
    machine.run_until(np.inf)
    return machine.outcome()


def simulate_replicas(
    workload: Workload, replicas: int, make_machine: MakeMachine, on_done: OnDone, *, least_loaded: bool
) -> SimulationOutcome:
    """Simulate several identical machines that share the requests of a workload.

    A closed loop is a workload with a constant number of requests in flight.

    Args:
        workload: The requests. In a closed loop, each user stays on one machine.
        replicas: Number of machines, at least 1. In a closed loop, at most the number of requests
            in flight.
        make_machine: Function that creates each machine.
        on_done: Function that is called periodically with the number of requests that have left.
        least_loaded: Whether a request goes to the machine with the fewest requests in flight.
            Otherwise, requests go to the machines round-robin. It has no effect in a closed loop:
            requests go round-robin if all machines have the same number of users, and otherwise
            each machine gets requests in proportion to its speed.

    Returns:
        The times of all requests.
    """
    if least_loaded and workload.in_flight is None:
        machines = _least_loaded(workload, replicas, make_machine, on_done)
    else:
        machines = _with_fixed_shares(workload, replicas, make_machine, on_done)
    outcomes = [(machine.record.order, machine.outcome()) for machine in machines if machine.record.order]
    return _combined_outcome(outcomes, replicas)


def _with_fixed_shares(
    workload: Workload, replicas: int, make_machine: MakeMachine, on_done: OnDone
) -> list[ContinuousMachine]:
    """Simulate machines one after another, each with a known part of the requests; return the machines.

    Machine r serves the requests whose index modulo ``replicas`` is r. In a closed loop in which
    some machines have more users than others, `_shares_by_speed` divides the requests.
    """
    total, machines = len(workload), list[ContinuousMachine]()
    shares: Sequence[Sequence[int]] = [range(index, total, replicas) for index in range(replicas)]
    if workload.in_flight is not None and workload.in_flight % replicas:
        shares = _shares_by_speed(workload, replicas, make_machine)
    for index, requests in enumerate(shares):
        done_before = sum(machine.record.left for machine in machines)
        machine = make_machine(
            _own_workload(workload, index, replicas),
            requests=requests,
            on_done=lambda done_here, _, done_before=done_before: on_done(done_before + done_here, total),  # type: ignore[misc]
        )
        machine.run_until(np.inf)
        machines.append(machine)
    return machines


def _own_workload(workload: Workload, index: int, replicas: int) -> Workload:
    """Return the workload of one machine. In a closed loop, only its own users have requests in flight."""
    if workload.in_flight is None:
        return workload
    return replace(workload, in_flight=len(range(index, workload.in_flight, replicas)))


def _shares_by_speed(workload: Workload, replicas: int, make_machine: MakeMachine) -> list[list[int]]:
    """Divide the requests of a closed loop so that all machines finish at about the same time.

    Some machines have one user more than the others, and thus serve more requests per second. To
    measure the time per request, one machine of each kind is simulated first. The first request of
    each user goes to the machines round-robin. Each later request goes to the machine that is
    expected to finish its earlier requests first.

    Args:
        workload: The requests.
        replicas: Number of machines. The number of users is not a multiple of it.
        make_machine: Function that creates each machine.

    Returns:
        For each machine, the indices of its requests.
    """
    total, users = len(workload), workload.in_flight or 0
    fuller_machines, seconds_per_request = users % replicas, list[float]()
    for index in (0, fuller_machines):
        requests = range(index, total, replicas)
        machine = make_machine(_own_workload(workload, index, replicas), requests=requests)
        machine.run_until(np.inf)
        seconds_per_request.append(machine.outcome().makespan_s / len(requests))
    shares = [list(range(index, min(users, total), replicas)) for index in range(replicas)]
    seconds = [seconds_per_request[index >= fuller_machines] for index in range(replicas)]
    busy_until_s = [(len(share) * seconds[index], index) for index, share in enumerate(shares)]
    heapify(busy_until_s)
    for request in range(users, total):
        until_s, index = busy_until_s[0]
        shares[index].append(request)
        heapreplace(busy_until_s, (until_s + seconds[index], index))
    return shares


def _least_loaded(
    workload: Workload, replicas: int, make_machine: MakeMachine, on_done: OnDone
) -> list[ContinuousMachine]:
    """Serve each request on the machine with the fewest requests in flight; return the machines.

    Requests in flight are counted at the end of the round (one decode pass of each user) in which
    the new request arrives. Among machines with equally few requests in flight, the one with the
    fewest requests so far is chosen.
    """
    report = reporter(on_done, len(workload))
    machines = [make_machine(workload, requests=()) for _ in range(replicas)]
    for request, arrival_s in enumerate(workload.arrival_s.tolist()):
        for machine in machines:
            machine.run_until(arrival_s)
        machines[least_loaded_index(machines)].offer(request)
        report(request - sum(machine.in_flight for machine in machines) + 1)
    for machine in machines:
        machine.run_until(np.inf)
    report(len(workload))
    return machines


def least_loaded_index(machines: Sequence[ContinuousMachine]) -> int:
    """Return the index of the machine with the fewest requests in flight, which gets the next one.

    If several have equally few, it is the one that has received the fewest requests so far.
    """
    return min(range(len(machines)), key=lambda index: (machines[index].in_flight, len(machines[index].record.order)))


def _combined_outcome(outcomes: Sequence[tuple[Sequence[int], SimulationOutcome]], replicas: int) -> SimulationOutcome:
    """Combine the outcomes of several machines into one, with the requests in index order.

    Args:
        outcomes: For each machine that had requests, the indices of its requests and their times.
        replicas: Total number of machines, including machines without requests.
    """
    parts = [outcome for _, outcome in outcomes]
    order = np.argsort(np.concatenate([np.array(numbers, np.int64) for numbers, _ in outcomes]))
    start_s, first_s, end_s, left_s = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("start_s", "first_s", "end_s", "left_s")
    )
    workload = Workload.concatenated([part.workload for part in parts]).part(order)
    return SimulationOutcome(
        workload=workload,
        start_s=start_s,
        first_s=first_s,
        end_s=end_s,
        left_s=left_s,
        gaps=np.concatenate([part.gaps for part in parts]),
        makespan_s=float(left_s.max() - workload.arrival_s.min()),
        replicas=replicas,
        prefixes=PrefixUse.total(part.prefixes for part in parts),
        **{name: sum(getattr(part, name) for part in parts) for name in SUMS},
    )
