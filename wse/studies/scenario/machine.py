"""A model on a machine: its layout for each goal, and operating points with and without drafts.

On wafers, the model is compiled for each goal, as `wse estimate --users` does. On GPUs, all goals
use the same layout.
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
from wse.studies.estimate.gpus.checks import check_users
from wse.studies.estimate.gpus.drafting import GpuDrafter, gpu_draft_place
from wse.studies.estimate.gpus.grades import gpu_grade
from wse.studies.estimate.gpus.prepare import prepare_gpu_estimate
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import timed_estimate
from wse.studies.options.drafts.acceptance import read_acceptance
from wse.studies.options.option import replace_options
from wse.studies.scenario.result import SpeculationResult


class Draft(NamedTuple):
    """Speculative-decoding options; the model verifies several draft tokens at once.

    Attributes:
        acceptance: How often drafts are accepted: a name, a list or a file, in the form of
            ``--draft``.
        model: Name of the draft model; None for a draft head (an additional layer of the model).
        place: Where the draft runs; None for the default.
    """

    acceptance: str
    model: str | None
    place: str | None

    @classmethod
    def of(cls, request: EstimateRequest) -> Draft | None:
        """Extract the options for speculative decoding from a request; None if it has none."""
        if request.draft is None:
            return None
        options = request.drafts
        return cls(
            request.draft, None if options.draft_model is None else str(options.draft_model), options.draft_place
        )


class ServedUsers(NamedTuple):
    """Speed and cost of a machine that serves a given number of concurrent users.

    Attributes:
        point: Latencies, speed and cost at this number of users.
        deployment: The machine, including the wafers and caches of a draft model.
        grade: Evidence grade of the speed, which says how well its inputs are known.
        speculation: Draft tokens and the resulting speed-up; None without speculative decoding.
    """

    point: OperatingPoint
    deployment: Deployment
    grade: Grade
    speculation: SpeculationResult | None = None

    @property
    def fits(self) -> bool:
        """True if the KV caches of all requests in flight fit."""
        return self.point.in_flight <= self.deployment.max_concurrency

    @property
    def speed(self) -> float:
        """Tokens per second per user while answers are generated."""
        return self.point.tokens_per_s_per_user or 0.0


@dataclass(frozen=True, kw_only=True)
class ModelLayout:
    """A model on a machine in one layout, which determines on which chips each layer runs.

    Attributes:
        plain: The deployment without speculative decoding.
        grade: Evidence grade of the speed without speculative decoding, which says how well the
            inputs of the prediction are known.
        model: Name of the model.
        place_draft: Function that places a draft model (a draft head for None) on the requested place
            or by default. It returns the name of the draft, and the machine that serves the model
            with the draft. Results are cached, because the placement does not depend on how often
            drafts are accepted. It raises BadInput or DoesNotFit if the draft cannot run.
    """

    plain: Deployment
    grade: Grade
    model: str
    place_draft: Callable[[str | None, str | None], tuple[str, Drafter]]
    _served_users: dict[tuple[Draft | None, int], ServedUsers] = field(default_factory=dict, repr=False)

    @property
    def useful_users(self) -> int:
        """Smallest number of users beyond which more users do not increase throughput.

        If the KV caches of that many users do not fit, the value is the maximum number that fits.
        Speculative decoding is not considered.
        """
        return saturating_users(self.plain)

    def serve(self, draft: Draft | None, users: int) -> ServedUsers:
        """Return the speed and cost for a number of users. Results are cached.

        Args:
            draft: Options of speculative decoding, or None. The number of draft tokens per pass is
                the one with the highest speed.
            users: Number of users in flight.
        """
        if (draft, users) not in self._served_users:
            self._served_users[draft, users] = self._serve(draft, users)
        return self._served_users[draft, users]

    def _serve(self, draft: Draft | None, users: int) -> ServedUsers:
        """Compute the speed and cost for a number of users. `serve` caches the results."""
        if draft is None:
            return ServedUsers(operating_point(self.plain, users), self.plain, self.grade)
        name, drafter = self.place_draft(draft.model, draft.place)
        acceptance = read_acceptance(draft.acceptance)
        accepted = acceptance_result(acceptance, name, self.model)
        options = UsersOfDrafts(drafter=drafter, users=users)
        tokens, gain = options.best_row(acceptance.curve)
        deployment, grade, tokens_per_pass = drafter.plain, self.grade, 1.0
        if tokens:
            choose = in_a_row(acceptance.curve, tokens)
            deployment, tokens_per_pass = drafter.deployment(choose), choose(options.machine).tokens_per_pass
            grade = weakest((grade, accepted.acceptance_grade, COST_GRADE))
        speculation = SpeculationResult(
            **vars(accepted), draft_tokens=tokens, tokens_per_pass=tokens_per_pass, gain=gain
        )
        return ServedUsers(operating_point(deployment, users), deployment, grade, speculation)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A model on one machine, which can be laid out for different goals such as latency or cost.

    Attributes:
        facts: Values that all predictions on this machine have in common, such as the names of the
            model and the chip, keyed by `CombinationResult` field name.
        economics: Power and price per chip.
        lay_out: Function that returns the layout for a goal. It raises BadInput or DoesNotFit if no
            layout exists.
    """

    facts: dict[str, Any]
    economics: Economics
    lay_out: Callable[[Goal], ModelLayout]


def machine_of(request: EstimateRequest) -> Machine:
    """Prepare the model and the machine of a request. Drafts in the request are ignored.

    Raises:
        BadInput and its subclasses: An item named in the request cannot be used, the price of a GPU
            is unknown, or answers have only one token, so that nothing is decoded.
        DoesNotFit: The weights do not fit.
    """
    return _wafers(request) if request.gpu is None else _gpus(request)


def _check_decodes(new_tokens: int) -> None:
    """Raise BadInput if answers have only one token, because speeds are those of decoding."""
    if new_tokens < 2:
        raise BadInput("new_tokens = 1: the first token comes from prefill, so nothing is decoded; give at least 2")


def _wafers(request: EstimateRequest) -> Machine:
    """Prepare the computation of speed and cost for a model on wafers."""
    estimate = prepare_estimate(request)
    _check_decodes(estimate.new_tokens)

    @cache
    def lay_out(goal: Goal) -> ModelLayout:
        """Return the fastest or cheapest layout for a goal. Each goal is compiled only once."""
        options = {"wafers": estimate.options.wafers, "users": goal.users, "objective": goal.objective}
        goal_estimate = prepare_estimate(replace_options(request, **options))
        return _model_layout(choose_layout(goal_estimate, compile_fastest, goal))

    facts = _facts(estimate.spec, estimate.options.dtype, estimate.wafer.name, estimate.options.wafers)
    return Machine(facts=facts, economics=estimate.economics, lay_out=lay_out)


def _model_layout(layout: ChosenLayout) -> ModelLayout:
    """Time a compiled model on wafers. The result can also add a draft for speculative decoding."""
    estimate, compilation = layout.prepared, layout.compilation
    timed_result = timed_estimate(estimate, compilation.program)

    @cache
    def place(model: str | None, draft_place: str | None) -> tuple[str, Drafter]:
        """Place a draft, and return its name and the wafers that serve with it."""
        request = _with_draft(estimate.request, model, draft_place)
        draft = place_draft(prepare_estimate(replace(request, wafers=estimate.options.wafers)), compilation)
        return draft.name, wafer_drafter(estimate, compilation, draft, timed_result.deployment)

    return ModelLayout(
        plain=timed_result.deployment,
        grade=timed_result.result.grades["decode.tokens_per_s_per_user"].grade,
        model=estimate.spec.name,
        place_draft=place,
    )


def _gpus(request: EstimateRequest) -> Machine:
    """Prepare the computation of speed and cost for a model on GPUs.

    Raises:
        BadInput: The price or the power of the GPU is unknown.
    """
    estimate = prepare_gpu_estimate(request)
    _check_decodes(estimate.new_tokens)
    server = estimate.server
    if estimate.economics is None:
        raise BadInput(
            f"{server.gpu.name}: its price and power are not known; give gpu_usd_per_hour and gpu_power_w in [prices]"
        )

    @cache
    def place(model: str | None, draft_place: str | None) -> tuple[str, Drafter]:
        """Place a draft, and return its name and the GPUs that serve with it."""
        draft_estimate = prepare_gpu_estimate(_with_draft(request, model, draft_place))
        return gpu_draft_place(draft_estimate).draft, GpuDrafter(prepared=draft_estimate)

    layout = ModelLayout(
        plain=estimate.deployment,
        grade=gpu_grade(estimate).grade,
        model=server.spec.name,
        place_draft=place,
    )

    def lay_out(goal: Goal) -> ModelLayout:
        """Return the layout of the model on the GPUs, which is the same for every goal.

        Raises:
            BadInput: The KV caches of the number of users in the goal do not fit.
        """
        if goal.users is not None:
            check_users(server, goal.users, estimate.deployment.shape, "users", 1)
        return layout

    facts = _facts(server.spec, server.weights.name, server.gpu.name, server.parallelism.gpus)
    return Machine(facts=facts, economics=estimate.economics, lay_out=lay_out)


def _with_draft(request: EstimateRequest, model: str | None, place: str | None) -> EstimateRequest:
    """Return a copy of a request that uses speculative decoding.

    The result is only used to place the draft. Its acceptance (how often draft tokens are accepted)
    is therefore set to a typical value.

    Args:
        request: The request.
        model: Draft model; None for a draft head.
        place: Where the draft runs; None for the default.
    """
    return replace_options(request, draft=TYPICAL, draft_model=model, draft_place=place)


def _facts(spec: ModelSpec, dtype: str, chip: str, chips: int) -> dict[str, Any]:
    """Return facts about the model and the chips, keyed by `CombinationResult` field name.

    Args:
        spec: The model.
        dtype: Element type of the weights.
        chip: Name of the wafer or GPU.
        chips: Number of wafers or GPUs.
    """
    return {"model": spec.name, "parameters": parameter_count(spec), "dtype": dtype, "chip": chip, "chips": chips}
