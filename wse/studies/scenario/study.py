"""The study of ``wse scenario``: all combinations of a scenario, set against what is published, and the verdict."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wse.errors import BadInput, DoesNotFit, WseBug, WseError
from wse.hardware.load import load_software, load_wafer
from wse.models.load import load_model
from wse.models.tensors.model_tensors import parameter_count
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import plural
from wse.serving.economics import load_economics, load_gpu_economics
from wse.serving.gpus.load import load_gpu, load_stack
from wse.studies.compare.grid.rows import assumptions_of
from wse.studies.compare.result import AssumptionResult
from wse.studies.estimate.gpus.prepare import STACK
from wse.studies.options.engine import THIS_MACHINE
from wse.studies.options.mapping_file import load_mapping
from wse.studies.scenario.drafting import acceptance_of_draft
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.form import MachineForm, PublishedForm, ScenarioForm
from wse.studies.scenario.gpus import gpu_combinations
from wse.studies.scenario.judge import judged
from wse.studies.scenario.placement import Placement, machine_name, placements_of
from wse.studies.scenario.read import Scenario, read_scenario
from wse.studies.scenario.result import CombinationResult, PublishedResult, ScenarioResult
from wse.studies.scenario.verdict import verdict_of
from wse.studies.scenario.wafers import wafer_combinations
from wse.studies.workers.engine_pool import Pool, each_output, engine_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of a placement: its combinations; or a user's error or the traceback of our bug, which ended it."""

    combinations: tuple[CombinationResult, ...] = ()
    error: str = ""
    bug: str = ""


def answer(
    source: str | Path | Mapping[str, Any], on_progress: OnProgress = ignore, *, jobs: int | None = None
) -> ScenarioResult:
    """The answer of a scenario.

    Args:
        source: A bundled name, a TOML file, or a mapping with what such a file holds.
        on_progress: Called with (done, all, name) at the start and after each placement.
        jobs: Processes; all cores by default. One is this process itself.

    Raises:
        BadInput and its kinds: the file cannot be read, something that it names is missing or cannot be used, or the
            system killed a process.
        DoesNotFit: no combination can be.
        WseBug: a combination ended in a bug of ours.
    """
    scenario = read_scenario(source)
    economics = _economics(scenario)
    with engine_pool(THIS_MACHINE, jobs) as pool:
        found = _all_combinations(scenario.form, on_progress, pool)
    published = tuple(map(_published, scenario.form.published))
    combinations = tuple(judged(one, published) for one in _without_duplicates(scenario.form, found))
    if all(one.prediction is None for one in combinations):
        first = combinations[0]
        none = f"none of {plural(len(combinations), 'combination')} can be"
        message = f"{scenario.name}: {none}: {first.settings}: {_reason(first)}"
        raise DoesNotFit(message)
    return ScenarioResult(
        name=scenario.name,
        title=scenario.form.title,
        question=scenario.form.question,
        verdict=verdict_of(scenario.form, combinations, published),
        published=published,
        combinations=combinations,
        economics=economics,
    )


def _economics(scenario: Scenario) -> dict[str, AssumptionResult]:
    """The assumptions about prices and powers, by machine; all names of a scenario are loaded, so that slips are told.

    Raises:
        BadInput: something that the scenario names is missing or cannot be used; with its place.
    """
    form = scenario.form
    found: dict[str, AssumptionResult] = {}
    for index, models in enumerate(form.models):
        with _told_at(f"{scenario.name}: models[{index}]"):
            for name in models.name:
                load_model(name, with_weights=False)
    for index, draft in enumerate(form.drafts):
        with _told_at(f"{scenario.name}: drafts[{index}]"):
            acceptance_of_draft(draft)
            if draft.model is not None:
                load_model(draft.model, with_weights=False)
    for index, machine in enumerate(form.machines):
        with _told_at(f"{scenario.name}: machines[{index}]"):
            found |= _assumptions(machine, form.prices or None)
    return found


def _assumptions(machine: MachineForm, prices: dict[str, Any] | None) -> dict[str, AssumptionResult]:
    """The assumptions about a machine, whose names are loaded."""
    if machine.gpu is not None:
        gpu = load_gpu(machine.gpu)
        load_stack(machine.stack or STACK, gpu.generation)
        return assumptions_of(load_gpu_economics(gpu, prices), gpu.name)
    wafer = load_wafer(str(machine.wafer))
    load_software(machine.software, wafer.generation)
    load_mapping(machine.mapping)
    return assumptions_of(load_economics(wafer, prices), wafer.name)


@contextmanager
def _told_at(place: str) -> Iterator[None]:
    """Errors of the user inside, with their place before them."""
    try:
        yield
    except BadInput as error:
        message = f"{place}: {error}"
        raise BadInput(message) from error


def _all_combinations(form: ScenarioForm, on_progress: OnProgress, pool: Pool) -> list[CombinationResult]:
    """The combinations of all placements in their order; those on wafers worked out by all processes."""
    placements = [*placements_of(form)]
    found: dict[int, Found] = {}
    on_progress(0, len(placements), "")
    order = sorted(range(len(placements)), key=lambda number: -_parameters(placements[number]))  # the longest first
    slow = [number for number in order if placements[number].machine.gpu is None]
    quick = [number for number in order if placements[number].machine.gpu is not None]
    alone = pool.processes == 1 or len(slow) == 1
    for number, one in _work(placements, quick) if not slow or alone else ():
        found[number] = one
        on_progress(len(found), len(placements), str(placements[number]))
    for number, one in _work(placements, slow) if alone else _in_processes(placements, [*slow, *quick], pool):
        found[number] = one
        on_progress(len(found), len(placements), str(placements[number]))
    return [combination for number in sorted(found) for combination in found[number].combinations]


def _parameters(placement: Placement) -> int:
    """Parameters of a placement's model."""
    return parameter_count(load_model(placement.model, with_weights=False).spec)


def _work(placements: Sequence[Placement], numbers: Sequence[int]) -> Iterator[tuple[int, Found]]:
    """Some placements in this process, one after another; errors are raised."""
    for number in numbers:
        yield number, _checked(found_of(placements[number]))


def _in_processes(placements: Sequence[Placement], numbers: Sequence[int], pool: Pool) -> Iterator[tuple[int, Found]]:
    """Some placements by several processes, in the order in which they are done; errors are raised."""
    found = each_output(
        pool,
        numbers,
        found_of,
        lambda number: (placements[number],),
        owner="the scenario",
        kill_remedy="if memory ran out, ask for fewer models or wafers",
        name=lambda number: str(placements[number]),
    )
    yield from ((number, _checked(one)) for number, one in found)


def found_of(placement: Placement) -> Found:
    """The combinations of a placement, or what ended them."""
    try:
        work = gpu_combinations if placement.machine.gpu is not None else wafer_combinations
        return Found(combinations=work(placement))
    except WseError as error:
        return Found(error=str(error))
    except Exception:
        return Found(bug=f"{placement} ended in a bug\n{traceback.format_exc()}")


def _checked(found: Found) -> Found:
    """What came of a placement. Raises what ended it."""
    if found.bug:
        raise WseBug(found.bug)
    if found.error:
        raise BadInput(found.error)
    return found


def _without_duplicates(form: ScenarioForm, combinations: Sequence[CombinationResult]) -> Iterator[CombinationResult]:
    """The combinations but those that differ from another in no more than how the number of chips was asked for."""
    counts = {"name", "wafers", "gpus"}
    machines = {machine_name(one): one.model_dump_json(exclude=counts) for one in form.machines}
    known = set()
    for one in combinations:
        key = (one.model, one.dtype, machines[one.machine], one.chips, one.prompt_len, one.users, one.drafts)
        if key not in known:
            known.add(key)
            yield one


def _reason(combination: CombinationResult) -> str:
    return next(iter(combination.ruled_out_by or ()), "")


def _published(form: PublishedForm) -> PublishedResult:
    values: dict[str, Any] = form.model_dump()
    names = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return PublishedResult(**values | names | {"unit": FIGURES[form.figure].unit})
