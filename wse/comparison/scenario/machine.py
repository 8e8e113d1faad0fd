"""Drafted: a machine with the drafts of a scenario, as a function of the users at the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wse.comparison.scenario.drafting import DraftSteps
from wse.comparison.scenario.result import SpeculationResult
from wse.hardware.number import Grade
from wse.serving.operating_point import Deployment
from wse.studies.estimate.draft_result import AcceptanceResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A machine with drafts, or without.

    Attributes:
        machine: The deployment with them.
        grade: The grade of the weakest number that its speed rests on.
        steps: The drafts of so many users or streams; None without drafts.
        accepted: The acceptance of the draft tokens; None without drafts.
    """

    machine: Deployment
    grade: Grade
    steps: Callable[[int], DraftSteps] | None = None
    accepted: AcceptanceResult | None = None

    def speculation(self, users: int) -> SpeculationResult | None:
        """Return what a result reports of the drafts of a number of users; None without drafts."""
        if self.steps is None or self.accepted is None:
            return None
        return self.steps(users).result(self.accepted)
