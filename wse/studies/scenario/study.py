"""The study of ``wse scenario``: all settings of a scenario, set against what is published."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from wse.errors import BadInput, DoesNotFit, WseBug
from wse.models.load import load_model
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import count, plural
from wse.serving.goal import COST, LATENCY, Goal
from wse.serving.network import load_network
from wse.serving.operating_point import largest_that
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.result import AssumptionResult
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.engine import THIS_MACHINE
from wse.studies.options.option import replace_options
from wse.studies.results.operating_points import point_result, user_counts
from wse.studies.scenario.agreement import judged, verdict_of
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.form import PublishedForm, TiersForm
from wse.studies.scenario.machine import Draft, LaidOut, Machine, Served, machine_of
from wse.studies.scenario.request import Setting, read_scenario
from wse.studies.scenario.result import (
    CombinationResult,
    PredictionResult,
    PublishedResult,
    ScenarioResult,
    TiersResult,
)
from wse.studies.workers.engine_pool import each_output, engine_pool

Found = tuple[Setting, CombinationResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The combinations of settings of one placement with the assumptions about prices, or the traceback of our bug."""

    found: tuple[Found, ...] = ()
    economics: Mapping[str, AssumptionResult]
    bug: str = ""


def answer(
    source: str | Path | Mapping[str, Any], on_progress: OnProgress = ignore, *, jobs: int | None = None
) -> ScenarioResult:
    """Return the answer of a scenario.

    Args:
        source: A bundled name, a TOML file, or a mapping with what such a file contains.
        on_progress: Called with (done, all, name) at the start and after each model on each machine.
        jobs: Processes; all cores by default. One is this process itself.

    Raises:
        BadInput and its kinds: the file cannot be read, something that it names is missing or cannot be used, or the
            system killed a process.
        DoesNotFit: no combination can be.
        WseBug: a combination ended in a bug in wse.
    """
    scenario = read_scenario(source)
    placements: dict[str, list[Setting]] = {}
    for setting in scenario.settings:
        placements.setdefault(f"{setting.machine} {setting.placement}", []).append(setting)
    groups = [*placements.values()]
    found: dict[int, Answers] = {}
    on_progress(0, len(groups), "")
    with engine_pool(THIS_MACHINE, jobs) as pool:
        outputs = each_output(
            pool,
            range(len(groups)),
            answers_of,
            lambda number: (groups[number], scenario.tiers),
            owner="the scenario",
            kill_remedy="if memory ran out, ask for fewer models or wafers",
            name=lambda number: _name(groups[number][0]),
        )
        for number, answers in outputs:
            if answers.bug:
                message = f"{_name(groups[number][0])} ended in a bug\n{answers.bug}"
                raise WseBug(message)
            found[number] = answers
            on_progress(len(found), len(groups), _name(groups[number][0]))
    published = tuple(map(_published, scenario.published))
    every = (one for number in range(len(groups)) for one in found[number].found)
    combinations = tuple(judged(one, published) for one in _without_duplicates(every))
    if all(one.prediction is None for one in combinations):
        first = combinations[0]
        none = f"none of {plural(len(combinations), 'combination')} can be"
        message = f"{scenario.name}: {none}: {first.settings}: {next(iter(first.ruled_out_by or ()), '')}"
        raise DoesNotFit(message)
    return ScenarioResult(
        name=scenario.name,
        title=scenario.title,
        question=scenario.question,
        verdict=verdict_of(combinations, published),
        published=published,
        combinations=combinations,
        economics={key: one for number in range(len(groups)) for key, one in found[number].economics.items()},
    )


def answers_of(settings: Sequence[Setting], tiers: TiersForm | None) -> Answers:
    """Return the combinations of settings that have their placement in common; with the reason where one cannot be."""
    try:
        machine = machine_of(settings[0].placement)
    except (BadInput, DoesNotFit) as error:
        return Answers(found=tuple((one, _impossible(one, str(error))) for one in settings), economics={})
    except Exception:
        return Answers(economics={}, bug=traceback.format_exc())
    works: list[Callable[[Setting, Machine], CombinationResult]] = [_with_users]
    if tiers is not None:
        works = [partial(_with_tiers, tiers=tiers, plain_speed=speed) for speed in tiers.plain_speed]
    found: list[Found] = []
    for setting, work in product(settings, works):
        try:
            found.append((setting, work(setting, machine)))
        except (BadInput, DoesNotFit) as error:
            asked = {} if tiers is None else {"users": 1}
            found.append((setting, _impossible(setting, str(error), **asked, **machine.facts)))
        except Exception:
            return Answers(economics={}, bug=traceback.format_exc())
    return Answers(found=tuple(found), economics=assumptions_of(machine.economics, str(machine.facts["chip"])))


def _with_users(setting: Setting, machine: Machine) -> CombinationResult:
    """Return the combination of a number of users, or of as many as saturate a machine that is for throughput."""
    request, draft = setting.request, Draft.of(setting.request)
    users = _users(request)
    laid_out = machine.lay_out(Goal(users=users, objective=request.serving.objective or LATENCY))
    _check_room(laid_out)
    served = laid_out.served(draft, users or laid_out.useful_users)
    if users is None and not served.fits:  # beside a draft
        served = laid_out.served(draft, max(1, served.deployment.max_concurrency))
    if not served.fits:
        message = f"caches: room for {plural(served.deployment.max_concurrency, 'user')} of {users:,}"
        raise BadInput(message)
    return _combination(setting, served, curve=_curve(laid_out, draft), **machine.facts)


def _with_tiers(setting: Setting, machine: Machine, tiers: TiersForm, plain_speed: float) -> CombinationResult:
    """Return the combination of an ordinary tier of a plain speed and a fast tier of a multiple of it.

    Each tier has the layout with the cheapest token at its speed, and the most users who each get that speed.
    """
    draft = Draft.of(setting.request)
    ordinary_draft = None if tiers.drafts == "fast" else draft
    fast_speed = tiers.speed_up * plain_speed
    laid_out, fast_laid_out = (
        machine.lay_out(Goal(tpot_s=1 / one, objective=COST)) for one in (plain_speed, fast_speed)
    )
    _check_room(laid_out)
    _check_room(fast_laid_out)
    users = _users_at(laid_out, ordinary_draft, plain_speed)
    if not users:
        alone = count(laid_out.served(ordinary_draft, 1).speed)
        message = f"one user alone gets {alone} tokens/s, less than the plain speed of {plain_speed:g}"
        raise BadInput(message)
    ordinary = laid_out.served(ordinary_draft, users)
    fast_users = _users_at(fast_laid_out, draft, fast_speed)
    fast = fast_laid_out.served(draft, max(1, fast_users))
    found = TiersResult.of(point_result(ordinary.point), point_result(fast.point), reached=fast_users > 0)
    return _combination(setting, ordinary, curve=_curve(laid_out, draft), tiers=found, **machine.facts)


def _users(request: EstimateRequest) -> int | None:
    """Return the users that a request asks for; None for as many as saturate the machine."""
    serving = request.serving
    return serving.users or (serving.batch or 1 if (serving.objective or LATENCY) == LATENCY else None)


def _check_room(laid_out: LaidOut) -> None:
    if not laid_out.plain.max_concurrency:
        message = f"the KV cache of {laid_out.plain.shape.tokens:,} tokens does not fit"
        raise BadInput(message)


def _users_at(laid_out: LaidOut, draft: Draft | None, tokens_per_s: float) -> int:
    """Return the most users who each get a number of tokens per second; 0 where one alone does not."""

    def is_fast(users: int) -> bool:
        served = laid_out.served(draft, users)
        return served.fits and served.speed >= tokens_per_s

    return largest_that(is_fast, laid_out.useful_users)


def _curve(laid_out: LaidOut, draft: Draft | None) -> tuple[Any, ...]:
    """Return the operating points as users vary."""
    every = (laid_out.served(draft, users) for users in user_counts(laid_out.useful_users, 1))
    return tuple(point_result(served.point) for served in every if served.fits)


def _combination(setting: Setting, served: Served, **found: Any) -> CombinationResult:
    point = point_result(served.point)
    prediction = point.convert(
        PredictionResult,
        chips=served.deployment.chips,
        most_users=served.deployment.max_concurrency,
        speculation=served.speculation,
        grade=served.grade,
    )
    prediction = replace(prediction, ttft_s=point.ttft_s + load_network().seconds)
    return _asked(setting, users=point.users, prediction=prediction, **found)


def _impossible(setting: Setting, reason: str, **found: Any) -> CombinationResult:
    return _asked(setting, ruled_out_by=(reason,), **found)


def _asked(setting: Setting, **found: Any) -> CombinationResult:
    """Return a combination with what was ``found`` of it, instead of what was requested."""
    request = setting.request
    asked: dict[str, Any] = {
        "model": str(request.model),
        "parameters": 0,
        "dtype": request.types.dtype or _published_type(request.model),
        "machine": setting.machine,
        "kind": "wafer" if request.gpu is None else "gpu",
        "chips": request.wafers if request.gpu is None else request.gpu_serving.gpus,
        "prompt_len": request.workload.prompt_len,
        "users": _users(request),
        "drafts": setting.drafts,
        "other": setting.other or None,
    }
    return CombinationResult(**asked | found)


def _published_type(model: str | Path) -> str:
    """Return the type of the published weights of a model."""
    return load_model(model, with_weights=False).spec.weight_type


def _name(setting: Setting) -> str:
    """Return a model on a machine as progress says it."""
    request = setting.request
    dtype = "" if request.types.dtype is None else f" as {request.types.dtype}"
    return f"{request.model}{dtype} on {setting.machine}"


def _without_duplicates(found: Iterable[Found]) -> Iterator[CombinationResult]:
    """Yield the combinations but those that differ from another in no more than how chips were requested."""
    known = set()
    for setting, one in found:
        machine = repr(replace_options(setting.placement, wafers=None, gpus=None))
        key = (machine, one.chips, one.users, one.drafts)
        if key not in known:
            known.add(key)
            yield one


def _published(form: PublishedForm) -> PublishedResult:
    values: dict[str, Any] = form.model_dump()
    names = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return PublishedResult(**values | names | {"unit": FIGURES[form.figure].unit})
