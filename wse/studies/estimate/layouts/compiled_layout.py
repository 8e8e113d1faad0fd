"""Compiled layouts with their serving performance."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wse.compiler.search.search import Candidate, Compilation
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.goal import Goal
from wse.serving.plan import Plan, plan
from wse.studies.estimate.deployment import middle_deployment
from wse.studies.estimate.prepare import PreparedEstimate

Rank = tuple[bool, float, float]
"""Sort key of layouts, best first: whether limits are missed, deciding number, tie-breaker."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledLayout:
    """A compiled layout, and the deployment that determines how fast it serves users.

    A layout is a division of the wafers into rectangles of PEs, each of which stores some layers.

    Attributes:
        prepared: The request. Its number of users per pass is the one for which the layout is
            compiled.
        candidate: The compiled layout.
        deployment: The model as deployed on this layout, from which speed and cost are computed.
        search_result: Result of the search that found the layout.
        finalist: Index, among the search's fully compiled layouts, of the layout from which this
            one was derived.
    """

    prepared: PreparedEstimate
    candidate: Candidate
    deployment: WaferDeployment
    search_result: Compilation
    finalist: int

    @property
    def users_may_wait(self) -> bool:
        """Whether users may wait for room in the KV cache: only if no drafts are requested.

        A faster layout with room for fewer users can serve all of them sooner.
        """
        return self.prepared.acceptance is None

    def rank(self, goal: Goal) -> Rank:
        """Return the layout's sort key for a goal. The best layout has the smallest key.

        If the goal states the number of replicas, any number of users may wait for room.
        """
        max_users = goal.users if goal.replicas is not None and self.users_may_wait else None
        return self.rank_of(plan(self.deployment, goal, max_users), goal)

    def rank_of(self, found: Plan | None, goal: Goal) -> Rank:
        """Return the sort key of one of the layout's operating points; None if no user fits."""
        return (True, math.inf, 0.0) if found is None else found.rank(self.deployment, goal)


def compiled_layout(
    prepared_estimate: PreparedEstimate, candidate: Candidate, search_result: Compilation, finalist: int
) -> CompiledLayout:
    """Return a compiled layout together with the speeds at which it serves users.

    Args:
        prepared_estimate: The request.
        candidate: The compiled layout.
        search_result: Result of the search that found the layout.
        finalist: Index of the layout among the search's fully compiled layouts.
    """
    deployment = middle_deployment(prepared_estimate, candidate.program)
    return CompiledLayout(
        prepared=prepared_estimate,
        candidate=candidate,
        deployment=deployment,
        search_result=search_result,
        finalist=finalist,
    )
