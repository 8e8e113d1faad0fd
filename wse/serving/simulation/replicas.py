"""Replicas: equal machines that share the requests of one workload, each of which goes to one of them on arrival.

They go to the machines in turn, or each to the machine with the fewest requests in flight, and among equals to the one
that was given the fewest: a dispatcher that asks each machine for its load at the end of its last round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.outcome import Outcome
from wse.serving.simulation.progress import OnDone, ignore, reporter
from wse.serving.simulation.workload import Workload


class MakeMachine(Protocol):
    """Makes a machine that serves some requests of a workload: `ContinuousMachine` with its costs and policy."""

    def __call__(self, workload: Workload, *, requests: Sequence[int], on_done: OnDone = ignore) -> ContinuousMachine:
        """Return the machine."""


def simulate_replicas(
    workload: Workload, replicas: int, make_machine: MakeMachine, on_done: OnDone, *, least_loaded: bool
) -> Outcome:
    """Serve all requests on some equal machines.

    Args:
        workload: The requests. In a closed loop each user stays on one machine.
        replicas: Machines, at least 1; in a closed loop no more than its requests in flight.
        make_machine: Makes each machine.
        on_done: Told how many requests have left, now and then.
        least_loaded: Whether a request goes to the machine with the fewest in flight, not to the next in turn.
    """
    if least_loaded and workload.in_flight is None:
        machines = _least_loaded(workload, replicas, make_machine, on_done)
    else:
        machines = _in_turn(workload, replicas, make_machine, on_done)
    outcomes = [(machine.record.order, machine.outcome()) for machine in machines if machine.record.order]
    return _together(outcomes, replicas)


def _in_turn(workload: Workload, replicas: int, make_machine: MakeMachine, on_done: OnDone) -> list[ContinuousMachine]:
    """Return machines that have served every request whose number is theirs, modulo the number of machines."""
    total, machines = len(workload), list[ContinuousMachine]()
    for number in range(replicas):
        done = sum(machine.record.left for machine in machines)
        part = workload
        if workload.in_flight is not None:
            part = replace(workload, in_flight=len(range(number, workload.in_flight, replicas)))
        machine = make_machine(
            part,
            requests=range(number, total, replicas),
            on_done=lambda more, _, done=done: on_done(done + more, total),  # type: ignore[misc]
        )
        machine.run_until(np.inf)
        machines.append(machine)
    return machines


def _least_loaded(
    workload: Workload, replicas: int, make_machine: MakeMachine, on_done: OnDone
) -> list[ContinuousMachine]:
    """Return machines that have served all requests, each given to the machine with the fewest in flight."""
    report = reporter(on_done, len(workload))
    machines = [make_machine(workload, requests=()) for _ in range(replicas)]
    for request, arrival_s in enumerate(workload.arrival_s.tolist()):
        for machine in machines:
            machine.run_until(arrival_s)
        min(machines, key=lambda machine: (machine.in_flight, len(machine.record.order))).offer(request)
        report(request - sum(machine.in_flight for machine in machines) + 1)
    for machine in machines:
        machine.run_until(np.inf)
    report(len(workload))
    return machines


def _together(outcomes: Sequence[tuple[Sequence[int], Outcome]], replicas: int) -> Outcome:
    """Return the outcome of several machines, with its requests in the order of their numbers.

    Args:
        outcomes: The numbers of the requests of each machine that had any, and what happened to them.
        replicas: All machines, including those that had no request.
    """
    parts = [outcome for _, outcome in outcomes]
    order = np.argsort(np.concatenate([np.array(numbers, np.int64) for numbers, _ in outcomes]))
    start_s, first_s, end_s, left_s = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("start_s", "first_s", "end_s", "left_s")
    )
    workload = Workload.joined([part.workload for part in parts]).part(order)
    return Outcome(
        workload=workload,
        start_s=start_s,
        first_s=first_s,
        end_s=end_s,
        left_s=left_s,
        gaps=np.concatenate([part.gaps for part in parts]),
        makespan_s=float(left_s.max() - workload.arrival_s.min()),
        busy_s=sum(part.busy_s for part in parts),
        work_s=sum(part.work_s for part in parts),
        prefill_busy_s=sum(part.prefill_busy_s for part in parts),
        user_s=sum(part.user_s for part in parts),
        in_system_s=sum(part.in_system_s for part in parts),
        prefix_hits=sum(part.prefix_hits for part in parts),
        saved_tokens=sum(part.saved_tokens for part in parts),
        replicas=replicas,
    )
