"""A model on one machine: its layouts for goals, and what some users get on them, with drafts and without.

On wafers the model is compiled for each goal, as `wse estimate --users` does; GPUs are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from wse.errors import BadInput
from wse.hardware.number import Grade, weakest
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count
from wse.serving.drafts.speculation import TYPICAL
from wse.serving.economics import Economics
from wse.serving.goal import Goal
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point
from wse.serving.plan import saturating_users
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.best_drafts import Drafter, UsersOfDrafts, in_a_row
from wse.studies.estimate.drafts.drafting import COST_GRADE, wafer_drafter
from wse.studies.estimate.drafts.placement import place_draft
from wse.studies.estimate.drafts.plan import acceptance_result
from wse.studies.estimate.gpus.drafting import GpuDrafter, gpu_draft_place
from wse.studies.estimate.gpus.prepare import prepare_gpu_estimate
from wse.studies.estimate.gpus.study import gpu_grade
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import timed_estimate
from wse.studies.options.acceptance import read_acceptance
from wse.studies.options.option import replace_options
from wse.studies.scenario.result import SpeculationResult


class Draft(NamedTuple):
    """The options of drafts: how often they are accepted, what drafts, and where."""

    acceptance: str
    model: str | None
    place: str | None

    @classmethod
    def of(cls, request: EstimateRequest) -> Draft | None:
        """Return the drafts that a request asks for; None without any."""
        if request.draft is None:
            return None
        options = request.drafts
        return cls(
            request.draft, None if options.draft_model is None else str(options.draft_model), options.draft_place
        )


class Served(NamedTuple):
    """Some users of a machine.

    Attributes:
        point: Their operating point.
        deployment: The machine, with wafers and caches of a draft model.
        grade: The grade of the weakest number that the speed rests on.
        speculation: The drafts; None without any.
    """

    point: OperatingPoint
    deployment: Deployment
    grade: Grade
    speculation: SpeculationResult | None = None

    @property
    def fits(self) -> bool:
        """True if there is room for the caches of the users."""
        return self.point.concurrency <= self.deployment.max_concurrency

    @property
    def speed(self) -> float:
        """Tokens/s of each user; scenarios have answers of several tokens."""
        return self.point.tokens_per_s_per_user or 0.0


@dataclass(frozen=True, kw_only=True)
class LaidOut:
    """A model laid out for some users.

    Attributes:
        plain: The deployment without drafts.
        grade: The grade of its speed.
        model: The model's name.
        with_draft: Returns what drafts, and the machine with it. Raises BadInput or DoesNotFit where that cannot be.
    """

    plain: Deployment
    grade: Grade
    model: str
    with_draft: Callable[[Draft], tuple[str, Drafter]]
    _served: dict[tuple[Draft | None, int], Served] = field(default_factory=dict, repr=False)

    @property
    def useful_users(self) -> int:
        """The fewest users that saturate the machine without drafts, or those that fit."""
        return saturating_users(self.plain)

    def served(self, draft: Draft | None, users: int) -> Served:
        """Return some users, with as many draft tokens as gain most for them, computed once."""
        if (draft, users) not in self._served:
            self._served[draft, users] = self._serve(draft, users)
        return self._served[draft, users]

    def _serve(self, draft: Draft | None, users: int) -> Served:
        if draft is None:
            return Served(operating_point(self.plain, users), self.plain, self.grade)
        name, drafter = self.with_draft(draft)
        acceptance = read_acceptance(draft.acceptance)
        accepted = acceptance_result(acceptance, name, self.model)
        options = UsersOfDrafts(drafter=drafter, users=users)
        tokens, gain = options.best_row(acceptance.curve)
        deployment, grade, tokens_per_pass = drafter.plain, self.grade, 1.0
        if tokens:
            choose = in_a_row(acceptance.curve, tokens)
            deployment, tokens_per_pass = drafter.deployment(choose), choose(options.machine).tokens_per_pass
            grade = weakest((grade, accepted.acceptance_grade, COST_GRADE))
        found = SpeculationResult(**vars(accepted), draft_tokens=tokens, tokens_per_pass=tokens_per_pass, gain=gain)
        return Served(operating_point(deployment, users), deployment, grade, found)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A model on one machine.

    Attributes:
        facts: What all its combinations have in common, by field of a result.
        economics: Power and price of a chip.
        lay_out: Returns the layout for a goal. Raises BadInput or DoesNotFit where there is none.
    """

    facts: dict[str, Any]
    economics: Economics
    lay_out: Callable[[Goal], LaidOut]


def machine_of(request: EstimateRequest) -> Machine:
    """Return the machine of a request without drafts.

    Raises:
        BadInput and its kinds: something that was named cannot be used, or nothing states the price of a GPU.
        DoesNotFit: the weights do not fit.
    """
    return _wafers(request) if request.gpu is None else _gpus(request)


def _wafers(request: EstimateRequest) -> Machine:
    prepared = prepare_estimate(request)
    if prepared.new_tokens < 2:
        message = "an answer of one token decodes none: give new_tokens of at least 2"
        raise BadInput(message)

    @cache
    def lay_out(goal: Goal) -> LaidOut:
        asked = prepare_estimate(replace_options(request, users=goal.users, objective=goal.objective))
        return _laid_out(choose_layout(asked, compile_fastest, goal))

    facts = _facts(prepared.spec, prepared.options.dtype, prepared.wafer.name, prepared.options.wafers)
    return Machine(facts=facts, economics=prepared.economics, lay_out=lay_out)


def _laid_out(layout: ChosenLayout) -> LaidOut:
    """Return a compiled layout on wafers, whose drafts are placed once for all that is accepted of them."""
    prepared, compilation = layout.prepared, layout.compilation
    timed = timed_estimate(prepared, compilation.program)

    @cache
    def placed(model: str | None, place: str | None) -> tuple[str, Drafter]:
        request = _with_draft(prepared.request, model, place)
        draft = place_draft(prepare_estimate(replace(request, wafers=prepared.options.wafers)), compilation)
        return draft.name, wafer_drafter(prepared, compilation, draft, timed.deployment)

    return LaidOut(
        plain=timed.deployment,
        grade=timed.result.grades["decode.tokens_per_s_per_user"].grade,
        model=prepared.spec.name,
        with_draft=lambda draft: placed(draft.model, draft.place),
    )


def _gpus(request: EstimateRequest) -> Machine:
    prepared = prepare_gpu_estimate(request)
    server = prepared.server
    if prepared.economics is None:
        message = (
            f"{server.gpu.name}: nobody states its price and power; give gpu_usd_per_hour and gpu_power_w in [prices]"
        )
        raise BadInput(message)

    @cache
    def placed(model: str | None, place: str | None) -> tuple[str, Drafter]:
        drafted = prepare_gpu_estimate(_with_draft(request, model, place))
        return gpu_draft_place(drafted).draft, GpuDrafter(prepared=drafted)

    laid_out = LaidOut(
        plain=prepared.deployment,
        grade=gpu_grade(prepared).grade,
        model=server.spec.name,
        with_draft=lambda draft: placed(draft.model, draft.place),
    )
    facts = _facts(server.spec, server.weights.name, server.gpu.name, server.parallelism.gpus)
    return Machine(facts=facts, economics=prepared.economics, lay_out=lambda goal: laid_out)


def _with_draft(request: EstimateRequest, model: str | None, place: str | None) -> EstimateRequest:
    """Return a request with drafts, of which no acceptance is requested here."""
    return replace_options(request, draft=TYPICAL, draft_model=model, draft_place=place)


def _facts(spec: ModelSpec, dtype: str, chip: str, chips: int) -> dict[str, Any]:
    return {"model": spec.name, "parameters": parameter_count(spec), "dtype": dtype, "chip": chip, "chips": chips}
