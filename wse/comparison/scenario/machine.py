"""Drafted: a machine with the drafts of a scenario, as a function of the users at the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wse.comparison.compare.curve.machine import Machine
from wse.comparison.scenario.drafting import DraftSteps
from wse.hardware.number import Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A machine with drafts, or without.

    Attributes:
        machine: The machine with them.
        grade: The grade of the weakest number that its speed rests on.
        steps: The drafts of so many users or streams; None without drafts.
    """

    machine: Machine
    grade: Grade
    steps: Callable[[int], DraftSteps] | None = None
