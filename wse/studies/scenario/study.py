"""Study behind ``wse scenario``: compares estimates with published figures, and gives a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wse.cache.records import cached
from wse.errors import DoesNotFit
from wse.hardware.load import load_wafer
from wse.reports.number_text import count, plural
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import printable
from wse.serving.gpus.load import load_gpu
from wse.serving.prices import WAFER, Price, check_prices, prices_under, unused_prices_note
from wse.studies.estimate.cached import request_key
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.engine import THIS_MACHINE
from wse.studies.options.option import replace_options
from wse.studies.scenario.figures import FIGURES, nearest_of, published_text
from wse.studies.scenario.form import CONSISTENT, NEAR, RULED_OUT, Agreement
from wse.studies.scenario.predictions import Answers, Combination, answers_of
from wse.studies.scenario.request import Scenario, Setting, read_scenario
from wse.studies.scenario.result import AgainstResult, CombinationResult, PublishedResult, ScenarioResult
from wse.studies.workers.engine_pool import each_output, engine_pool


def compare_with_published(combination: CombinationResult, published: Sequence[PublishedResult]) -> CombinationResult:
    """Compare the prediction for a combination of settings with the published figures.

    The prediction is compared with each figure that applies to the combination's machine, element
    type and drafts. Some figures can rule out a combination. The agreement of the combination is
    its worst agreement with any of these figures, or None if there are none. A combination that
    cannot run at all is ruled out.

    Args:
        combination: A combination of settings with its prediction.
        published: All published figures of the scenario.

    Returns:
        The combination with its comparisons and its agreement.
    """
    if combination.prediction is None:
        return replace(combination, agreement=RULED_OUT)
    rows = [
        AgainstResult(
            published=index,
            predicted=predicted,
            error_pct=100 * (predicted / figure.value - 1),
            agreement=agreement_of(figure, predicted),
        )
        for index, figure in enumerate(published)
        if _applies(figure, combination) and (predicted := FIGURES[figure.figure].of(combination)) is not None
    ]
    decisive = [row for row in rows if published[row.published].decides]
    faults = tuple(_fault_text(published[row.published], row) for row in decisive if row.agreement == RULED_OUT)
    agreements = [row.agreement for row in decisive]
    agreement = next((word for word in (RULED_OUT, NEAR, CONSISTENT) if word in agreements), None)
    return replace(combination, against=tuple(rows) or None, agreement=agreement, ruled_out_by=faults or None)


def agreement_of(published: PublishedResult, predicted: float) -> Agreement:
    """Judge whether a prediction is consistent with a published figure, near it, or ruled out.

    The rule depends on the relation between the true value and the published one:

    - ``about``: consistent within the tolerance, otherwise ruled out.
    - ``at_least``, ``at_most``: consistent on the correct side of the bound, near if the prediction
      misses the bound by at most the tolerance, otherwise ruled out.

    Args:
        published: The published figure, with its relation and relative tolerance.
        predicted: The predicted value, in the unit of the figure.
    """
    error = predicted / published.value - 1
    if published.relation == "about":
        return CONSISTENT if abs(error) <= published.tolerance else RULED_OUT
    excess = -error if published.relation == "at_least" else error
    return CONSISTENT if excess <= 0 else NEAR if excess <= published.tolerance else RULED_OUT


def _fault_text(published: PublishedResult, row: AgainstResult) -> str:
    """Describe how a prediction contradicts a published figure, with both numbers.

    Args:
        published: The published figure.
        row: The comparison of the prediction with this figure.
    """
    figure = FIGURES[published.figure]
    return f"{figure.title}: {figure.text(row.predicted)}, published {published_text(published)}"


def _applies(published: PublishedResult, combination: CombinationResult) -> bool:
    """Return whether a published figure applies to a combination of settings.

    A figure can be limited to certain machines, element types and drafts. A figure without a list
    of machines, for example, applies to all machines.
    """
    pairs = (
        (published.machines, combination.machine),
        (published.dtypes, combination.dtype),
        (published.drafts, combination.drafts),
    )
    return all(names is None or name in names for names, name in pairs)


def verdict_of(combinations: Sequence[CombinationResult], published: Sequence[PublishedResult]) -> tuple[str, ...]:
    """Summarise the verdict on a scenario in one or two sentences.

    The first sentence counts the combinations of settings that agree with the published figures.
    The second sentence names the combination whose prediction is nearest to a published figure: the
    first figure that can rule out combinations.

    If no published figure can rule out combinations, the sentences count the combinations that can
    run and name the fastest one.

    Args:
        combinations: All combinations of the scenario, compared with the published figures.
        published: All published figures of the scenario.
    """
    possible = [combination for combination in combinations if combination.prediction is not None]
    impossible_count = len(combinations) - len(possible)
    compared_count = sum(combination.agreement is not None for combination in combinations)
    first_index = next((index for index, figure in enumerate(published) if figure.decides), None)
    if first_index is None:
        fastest_combination = max(possible, key=lambda combination: combination.speed)
        fastest_text = (
            f"Fastest for a user is {fastest_combination.settings}: {count(fastest_combination.speed)} tokens/s."
        )
        return f"{len(possible):,} of {plural(len(combinations), 'combination')} are possible.", fastest_text
    counts = {
        word: sum(combination.agreement == word for combination in combinations)
        for word in (CONSISTENT, NEAR, RULED_OUT)
    }
    deciding_count = sum(figure.decides for figure in published)
    counts_text = (
        f"{counts[CONSISTENT]:,} of {plural(compared_count, 'combination')} agree with the "
        f"{deciding_count} of {plural(len(published), 'published figure')} that decide, "
        f"{counts[NEAR]:,} more within the tolerance; "
        f"{counts[RULED_OUT]:,} are ruled out ({impossible_count:,} impossible)."
    )
    nearest_combination = nearest_of(combinations, first_index)
    if nearest_combination is None:
        return (counts_text,)
    figure, (combination, row) = published[first_index], nearest_combination
    predicted = FIGURES[figure.figure].text(row.predicted)
    comparison = f"{predicted} predicted against {published_text(figure)} ({row.error_pct:+.1f} %)"
    return counts_text, f"The prediction nearest to the first deciding figure is {combination.settings}: {comparison}."


def answer(
    source: str | Path | Mapping[str, Any],
    on_progress: OnProgress = ignore,
    *,
    price: Price | None = None,
    jobs: int | None = None,
) -> ScenarioResult:
    """Predict speed and cost for all settings of a scenario, and compare with published figures.

    1. Group the settings that differ only in users and drafts. A group shares a compilation.
    2. Compute the groups in parallel.
    3. Compare all combinations of settings with the published figures.

    The result may come from the cache on disk.

    Args:
        source: Name of a bundled scenario, a TOML file, or a mapping with the content of such a
            file.
        on_progress: Called with (finished groups, all groups, name) at the start and after each
            group.
        price: Prices that override those of the scenario.
        jobs: Number of processes; by default one per core. With 1, this process does the work.

    Raises:
        BadInput and its subclasses: The file cannot be read, an item that it names is missing or
            cannot be used, or the system killed a process.
        DoesNotFit: No combination of settings can run.
        WseBug: A combination triggered a bug in wse.
    """
    scenario = _with_prices(read_scenario(source), price)
    return cached(_cache_key(scenario), ScenarioResult, lambda: _answer(scenario, on_progress, jobs))


def _cache_key(scenario: Scenario) -> str | None:
    """Return the cache key for the result of a scenario; None if the result must not be cached."""
    requests = tuple(setting.request for setting in scenario.settings)
    names = [(setting.machine, setting.drafts, setting.other) for setting in scenario.settings]
    forms = [form.model_dump() for form in (scenario.tiers, *scenario.published) if form is not None]
    return request_key(
        "scenario", requests, names, scenario.name, scenario.title, scenario.question, scenario.note, forms
    )


def _answer(scenario: Scenario, on_progress: OnProgress, jobs: int | None) -> ScenarioResult:
    """Predict and compare all settings of a scenario. Arguments and errors are those of `answer`."""
    # 1. Group the settings.
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
            answers_by_group[number] = answers
            on_progress(len(answers_by_group), len(groups), _name(groups[number][0]))
    # 3. Compare with the published figures.
    published = tuple(PublishedResult.from_parts(form, unit=FIGURES[form.figure].unit) for form in scenario.published)
    all_answers = [answers_by_group[number] for number in range(len(groups))]
    all_combinations = (combination for group_combinations, _ in all_answers for combination in group_combinations)
    combinations = tuple(
        compare_with_published(combination, published) for combination in _without_duplicates(all_combinations)
    )
    if all(combination.prediction is None for combination in combinations):
        first = combinations[0]
        text = f"none of {plural(len(combinations), 'combination')} is possible"
        raise DoesNotFit(f"{scenario.name}: {text}: {first.settings}: {next(iter(first.ruled_out_by or ()), '')}")
    notes = [f"Note: {printable(scenario.note)}."] if scenario.note else []
    return ScenarioResult.from_parts(
        scenario,
        plain_speeds=None if scenario.tiers is None else scenario.tiers.plain_speed,
        verdict=(*verdict_of(combinations, published), *notes),
        published=published,
        combinations=combinations,
        economics={key: assumption for _, economics in all_answers for key, assumption in economics.items()},
    )


def _name(setting: Setting) -> str:
    """Describe a setting, such as "llama-3-8b as int8 on wse3", for progress and error messages."""
    request = setting.request
    dtype = "" if request.types.dtype is None else f" as {request.types.dtype}"
    return f"{request.model}{dtype} on {setting.machine}"


def _without_duplicates(combinations: Iterable[Combination]) -> Iterator[CombinationResult]:
    """Yield the results for all combinations of settings, without duplicates.

    Two combinations are duplicates if they differ only in how the number of chips was requested.
    For example, one requests ``auto``, and the other one the number that ``auto`` selects.
    Combinations that are impossible for different reasons are no duplicates.
    """
    seen_keys = set()
    for setting, result in combinations:
        machine = repr(replace_options(setting.placement, wafers=None, gpus=None))
        key = (machine, result.chips, result.users, result.drafts, result.tiers, result.ruled_out_by)
        if key not in seen_keys:
            seen_keys.add(key)
            yield result


def _with_prices(scenario: Scenario, price: Price | None) -> Scenario:
    """Return a copy of a scenario in which machines have the stated prices.

    The prices override those of the table ``[prices]``. A note names the prices that no machine
    uses.

    Args:
        scenario: The scenario.
        price: Prices as stated with ``--price``; None keeps the prices of the scenario.

    Raises:
        UnknownName: One of the names matches no machine.
        BadInput: A price is invalid, or there are two prices of the same machine.
    """
    if price is None:
        return scenario
    names: Sequence[tuple[str, ...]] = [_price_names(setting.request) for setting in scenario.settings]
    check_prices(price, names)
    settings = (
        replace(setting, request=replace_options(setting.request, price=prices_under(price, own_names)))
        for setting, own_names in zip(scenario.settings, names, strict=True)
    )
    used_names = {name for own_names in names for name in own_names}
    return replace(scenario, settings=tuple(settings), note=unused_prices_note(price, used_names))


def _price_names(request: EstimateRequest) -> tuple[str, ...]:
    """Return the names under which the machine of a request can have a price."""
    if request.gpu is not None:
        return (load_gpu(request.gpu).name,)
    return WAFER, load_wafer(request.machine.wafer).name
