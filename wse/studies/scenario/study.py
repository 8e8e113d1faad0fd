"""Study behind ``wse scenario``: compares estimates of combinations with published figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wse.errors import DoesNotFit, WseBug
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import plural
from wse.studies.options.engine import THIS_MACHINE
from wse.studies.options.option import replace_options
from wse.studies.scenario.agreement import compare_with_published, verdict_of
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.form import PublishedForm
from wse.studies.scenario.predictions import Answers, Combination, answers_of
from wse.studies.scenario.request import Setting, read_scenario
from wse.studies.scenario.result import CombinationResult, PublishedResult, ScenarioResult
from wse.studies.workers.engine_pool import each_output, engine_pool


def answer(
    source: str | Path | Mapping[str, Any], on_progress: OnProgress = ignore, *, jobs: int | None = None
) -> ScenarioResult:
    """Predict speed and cost for all settings of a scenario, and compare with published figures.

    1. Group the settings that differ only in users and drafts. A group shares a compilation.
    2. Compute the groups in parallel.
    3. Compare all combinations of settings with the published figures.

    Args:
        source: Name of a bundled scenario, a TOML file, or a mapping with the content of such a
            file.
        on_progress: Called with (finished groups, all groups, name) at the start and after each
            group.
        jobs: Number of processes; by default one per core. With 1, this process does the work.

    Raises:
        BadInput and its subclasses: The file cannot be read, an item that it names is missing or
            cannot be used, or the system killed a process.
        DoesNotFit: No combination of settings can run.
        WseBug: A combination triggered a bug in wse.
    """
    # 1. Group the settings.
    scenario = read_scenario(source)
    placements: dict[str, list[Setting]] = {}
    for setting in scenario.settings:
        placements.setdefault(f"{setting.machine} {setting.placement}", []).append(setting)
    groups = [*placements.values()]
    # 2. Compute the groups.
    answers_by_group: dict[int, Answers] = {}
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
            answers_by_group[number] = answers
            on_progress(len(answers_by_group), len(groups), _name(groups[number][0]))
    # 3. Compare with the published figures.
    published = tuple(map(_published, scenario.published))
    all_answers = [answers_by_group[number] for number in range(len(groups))]
    all_combinations = (combination for answers in all_answers for combination in answers.combinations)
    combinations = tuple(
        compare_with_published(combination, published) for combination in _without_duplicates(all_combinations)
    )
    if all(combination.prediction is None for combination in combinations):
        first = combinations[0]
        text = f"none of {plural(len(combinations), 'combination')} is possible"
        message = f"{scenario.name}: {text}: {first.settings}: {next(iter(first.ruled_out_by or ()), '')}"
        raise DoesNotFit(message)
    return ScenarioResult(
        name=scenario.name,
        title=scenario.title,
        question=scenario.question,
        verdict=verdict_of(combinations, published),
        published=published,
        combinations=combinations,
        economics={key: assumption for answers in all_answers for key, assumption in answers.economics.items()},
    )


def _name(setting: Setting) -> str:
    """Describe a setting, such as "llama-3-8b as int8 on wse3", for progress and error messages."""
    request = setting.request
    dtype = "" if request.types.dtype is None else f" as {request.types.dtype}"
    return f"{request.model}{dtype} on {setting.machine}"


def _without_duplicates(combinations: Iterable[Combination]) -> Iterator[CombinationResult]:
    """Yield all combinations of settings except duplicates.

    Two combinations are duplicates if they differ only in how the number of chips was requested,
    such as ``auto`` and the number to which it resolves.
    """
    seen_keys = set()
    for setting, result in combinations:
        machine = repr(replace_options(setting.placement, wafers=None, gpus=None))
        key = (machine, result.chips, result.users, result.drafts)
        if key not in seen_keys:
            seen_keys.add(key)
            yield result


def _published(form: PublishedForm) -> PublishedResult:
    """Convert a published figure of a scenario file to a result record with a unit."""
    values: dict[str, Any] = form.model_dump()
    names = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return PublishedResult(**values | names | {"unit": FIGURES[form.figure].unit})
