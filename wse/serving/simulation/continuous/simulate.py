"""Simulation of one machine with continuous batching whose requests are all known."""

from __future__ import annotations

from math import inf

from wse.reports.progress import ignore
from wse.serving.simulation.continuous.machine import ContinuousMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine
from wse.serving.simulation.drafts import Drafts
from wse.serving.simulation.outcome import SimulationOutcome
from wse.serving.simulation.pass_costs import PassCosts
from wse.serving.simulation.progress import OnDone
from wse.serving.simulation.workload import Workload


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
    machine.run_until(inf)
    return machine.outcome()
