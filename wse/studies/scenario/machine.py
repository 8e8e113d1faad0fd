"""A placement laid out for some users, and the operating points of its users with drafts and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wse.hardware.number import Grade, weakest
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point
from wse.serving.plan import saturating_users
from wse.studies.estimate.drafts.best_drafts import Drafter, UsersOfDrafts
from wse.studies.estimate.drafts.drafting import COST_GRADE
from wse.studies.estimate.drafts.result import AcceptanceResult
from wse.studies.options.acceptance import DraftAcceptance
from wse.studies.scenario.drafting import chosen_drafts
from wse.studies.scenario.form import DraftForm
from wse.studies.scenario.result import SpeculationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioDraft:
    """A draft of a scenario on a machine.

    Attributes:
        acceptance: How often its tokens are accepted.
        accepted: The same, as results report it.
        drafter: The machine with this draft.
    """

    acceptance: DraftAcceptance
    accepted: AcceptanceResult
    drafter: Drafter


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Some users of a machine.

    Attributes:
        point: Their operating point.
        chips: Wafers or GPUs, those of a draft model among them.
        max_users: Users whose KV caches fit.
        grade: The grade of the weakest number that the speed rests on.
        speculation: What a result reports of the drafts; None without drafts.
    """

    point: OperatingPoint
    chips: int
    max_users: int
    grade: Grade
    speculation: SpeculationResult | None = None


@dataclass(frozen=True, kw_only=True)
class LaidOut:
    """A placement laid out for some users.

    Attributes:
        plain: The deployment without drafts.
        grade: The grade of its speed.
        place: Returns the machine with a draft that has an acceptance. Raises BadInput or DoesNotFit where it cannot
            be.
    """

    plain: Deployment
    grade: Grade
    place: Callable[[DraftForm], ScenarioDraft]
    _served: dict[tuple[str, int], Served] = field(default_factory=dict, repr=False)

    @property
    def useful_users(self) -> int:
        """The fewest users that saturate the machine without drafts, or those that fit."""
        return saturating_users(self.plain)

    def served(self, draft: DraftForm, users: int) -> Served:
        """Return some users, with the drafts that are best for them where the draft has an acceptance."""
        key = (draft.model_dump_json(), users)
        if key not in self._served:
            self._served[key] = self._serve(draft, users)
        return self._served[key]

    def _serve(self, draft: DraftForm, users: int) -> Served:
        if draft.acceptance is None:
            return self._without_drafts(self.plain, users)
        placed = self.place(draft)
        options = UsersOfDrafts(drafter=placed.drafter, users=users)
        choose = chosen_drafts(draft, placed.acceptance, options)
        if choose is None:
            return self._without_drafts(placed.drafter.plain, users, placed)
        deployment, steps = placed.drafter.deployment(choose), choose(options.machine)
        return Served(
            point=operating_point(deployment, users),
            chips=deployment.chips,
            max_users=deployment.max_concurrency,
            grade=weakest((self.grade, placed.accepted.acceptance_grade, COST_GRADE)),
            speculation=SpeculationResult(
                **vars(placed.accepted),
                draft_tokens=steps.draft_tokens,
                tokens_per_pass=steps.tokens_per_pass,
                gain=options.speed_up(choose),
            ),
        )

    def _without_drafts(self, plain: Deployment, users: int, placed: ScenarioDraft | None = None) -> Served:
        none_gains = None
        if placed is not None:
            none_gains = SpeculationResult(**vars(placed.accepted), draft_tokens=0, tokens_per_pass=1.0, gain=1.0)
        return Served(
            point=operating_point(plain, users),
            chips=plain.chips,
            max_users=plain.max_concurrency,
            grade=self.grade,
            speculation=none_gains,
        )
