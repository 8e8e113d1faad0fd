"""Predictions of speed and cost for settings that share a compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from wse.bisection import largest_passing
from wse.errors import BadInput, DoesNotFit
from wse.models.load import load_model
from wse.reports.number_text import count, plural
from wse.serving.goal import COST, LATENCY, Goal
from wse.serving.network import load_network
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.result import AssumptionResult
from wse.studies.estimate.gpus.prepare import STACK
from wse.studies.estimate.request import EstimateRequest
from wse.studies.results.operating_points import point_result, user_counts
from wse.studies.scenario.form import TiersForm
from wse.studies.scenario.machine import Draft, Machine, ModelLayout, ServedUsers, machine_of
from wse.studies.scenario.request import Setting
from wse.studies.scenario.result import CombinationResult, PredictionResult, TiersResult

Combination = tuple[Setting, CombinationResult]
"""A setting and its result."""


Answers = tuple[tuple[Combination, ...], Mapping[str, AssumptionResult]]
"""Predictions for settings that share one compiled model, and assumed power and price of its machine.

The assumptions are keyed by names such as ``gpu_usd_per_hour.h100``."""


def answers_of(settings: Sequence[Setting], tiers: TiersForm | None) -> Answers:
    """Predict speed and cost for settings that differ only in users and drafts.

    For a setting that cannot run, the result states the reason instead of a prediction.

    Args:
        settings: The settings, which share a compilation.
        tiers: The service tiers of the scenario, or None. If tiers specify several plain speeds,
            there is one prediction per setting and plain speed.
    """
    try:
        machine = machine_of(settings[0].placement)
    except (BadInput, DoesNotFit) as error:
        return tuple((setting, _result(setting, ruled_out_by=(str(error),))) for setting in settings), {}
    works: list[Callable[[Setting, Machine], CombinationResult]] = [_with_users]
    if tiers is not None:
        works = [partial(_with_tiers, tiers=tiers, plain_speed=speed) for speed in tiers.plain_speed]
    combinations: list[Combination] = []
    for setting, work in product(settings, works):
        try:
            combinations.append((setting, work(setting, machine)))
        except (BadInput, DoesNotFit) as error:
            users = {} if tiers is None else {"users": 1}
            combinations.append((setting, _result(setting, ruled_out_by=(str(error),), **users, **machine.facts)))
    return tuple(combinations), assumptions_of(machine.economics, str(machine.facts["chip"]))


def _with_users(setting: Setting, machine: Machine) -> CombinationResult:
    """Predict a setting's speed and cost for its number of users.

    If the request states no number of users, the smallest number with the maximum throughput is
    used.

    Raises:
        BadInput: No layout has room for the KV caches of the requested users and of their drafts.
    """
    request, draft = setting.request, Draft.of(setting.request)
    users = _users(request)
    objective = request.serving.objective or LATENCY
    users_may_wait = draft is None or draft.model is None
    laid_out = machine.lay_out(Goal(users=users, objective=objective, users_may_wait=users_may_wait))
    _check_room(laid_out)
    served_users = laid_out.serve(draft, users or laid_out.useful_users)
    if users is None and not served_users.fits:  # the draft leaves room for fewer KV caches
        served_users = laid_out.serve(draft, max(1, served_users.deployment.max_concurrency))
    if draft is not None and not served_users.fits:
        raise BadInput(f"caches: room for {plural(served_users.deployment.max_concurrency, 'user')} of {users:,}")
    return _combination(setting, served_users, curve=_curve(laid_out, draft), **machine.facts)


def _with_tiers(setting: Setting, machine: Machine, tiers: TiersForm, plain_speed: float) -> CombinationResult:
    """Predict a setting's speed and cost with two service tiers, a plain and a fast one.

    Each tier promises its users a minimum speed. It uses the layout with the lowest cost per token
    at this speed, and serves as many users as can get this speed. If not even one user gets the
    fast speed, the fast tier serves one user, and the result is marked as not reached.

    Args:
        setting: The setting.
        machine: The model and its machine.
        tiers: The speed-up of the fast tier, and which tiers have drafts.
        plain_speed: Tokens per second per user in the plain tier.

    Raises:
        BadInput: Even a single user does not reach the plain speed, or no KV cache fits.
    """
    draft = Draft.of(setting.request)
    plain_draft = None if tiers.drafts == "fast" else draft
    fast_speed = tiers.speed_up * plain_speed
    laid_out, fast_laid_out = (
        machine.lay_out(Goal(tpot_s=1 / speed, objective=COST)) for speed in (plain_speed, fast_speed)
    )
    _check_room(laid_out)
    _check_room(fast_laid_out)
    users = _users_at(laid_out, plain_draft, plain_speed)
    if not users:
        single_user_speed = count(laid_out.serve(plain_draft, 1).speed)
        raise BadInput(f"a single user gets {single_user_speed} tokens/s, less than the plain speed of {plain_speed:g}")
    plain = laid_out.serve(plain_draft, users)
    fast_users = _users_at(fast_laid_out, draft, fast_speed)
    fast = fast_laid_out.serve(draft, max(1, fast_users))
    tiers_result = TiersResult.of(point_result(plain.point), point_result(fast.point), reached=fast_users > 0)
    return _combination(setting, plain, curve=_curve(laid_out, draft), tiers=tiers_result, **machine.facts)


def _users(request: EstimateRequest) -> int | None:
    """Return the number of users in flight, or None for the number that saturates the machine.

    It is the requested number of users. If none is requested, it is the batch size (by default 1)
    for a request that minimises latency, and None for all other requests.
    """
    serving = request.serving
    return serving.users or (serving.batch or 1 if (serving.objective or LATENCY) == LATENCY else None)


def _check_room(laid_out: ModelLayout) -> None:
    """Check that the KV cache of at least one user fits.

    Raises:
        BadInput: No KV cache fits.
    """
    if not laid_out.plain.max_concurrency:
        raise BadInput(f"the KV cache of {laid_out.plain.shape.tokens:,} tokens does not fit")


def _users_at(laid_out: ModelLayout, draft: Draft | None, tokens_per_s: float) -> int:
    """Return the maximum number of users that can each get a given speed; 0 if none can.

    Args:
        laid_out: The model on its machine.
        draft: Options of speculative decoding, or None.
        tokens_per_s: Required tokens per second per user.
    """

    def is_fast(users: int) -> bool:
        """Return whether all KV caches fit and each of ``users`` gets the required tokens/s."""
        served_users = laid_out.serve(draft, users)
        return served_users.fits and served_users.speed >= tokens_per_s

    return largest_passing(1, laid_out.useful_users + 1, is_fast) or 0


def _curve(laid_out: ModelLayout, draft: Draft | None) -> tuple[Any, ...]:
    """Return latencies, speed and cost for increasing numbers of users.

    The largest number is the one beyond which more users do not increase throughput. Numbers whose
    KV caches do not fit are omitted.

    Args:
        laid_out: The model on its machine.
        draft: Options of speculative decoding, or None.
    """
    points = (laid_out.serve(draft, users) for users in user_counts(laid_out.useful_users, 1))
    return tuple(point_result(served_users.point) for served_users in points if served_users.fits)


def _combination(setting: Setting, served_users: ServedUsers, **fields: Any) -> CombinationResult:
    """Build the record of a setting that can run, with its predicted speed and cost.

    The time to first token includes the delay of the user's network connection.

    Args:
        setting: The setting.
        served_users: Speed and cost for the setting's number of users.
        fields: Additional fields of the record.
    """
    point = point_result(served_users.point)
    prediction = point.convert(
        PredictionResult,
        chips=served_users.deployment.chips,
        most_users=served_users.deployment.max_concurrency,
        speculation=served_users.speculation,
        grade=served_users.grade,
    )
    prediction = replace(prediction, ttft_s=point.ttft_s + load_network().seconds)
    return _result(setting, users=point.users, prediction=prediction, **fields)


def _result(setting: Setting, **fields: Any) -> CombinationResult:
    """Create the result record of a combination of settings.

    Args:
        setting: The combination. It provides the values of all fields that are not given.
        fields: Given fields of the record.
    """
    request = setting.request
    requested_fields: dict[str, Any] = {
        "model": str(request.model),
        "parameters": 0,
        "dtype": request.types.dtype or load_model(request.model, with_weights=False).spec.weight_type,
        "machine": setting.machine,
        "stack": None if request.gpu is None else str(request.gpu_serving.stack or STACK),
        "kind": "wafer" if request.gpu is None else "gpu",
        "chips": request.wafers if request.gpu is None else request.gpu_serving.gpus,
        "prompt_len": request.workload.prompt_len,
        "users": _users(request),
        "drafts": setting.drafts,
        "other": setting.other or None,
    }
    return CombinationResult(**requested_fields | fields)
