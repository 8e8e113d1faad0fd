"""The rules of a scenario that no single key has: what goes together, and what figures and prices there are."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.files import short_repr
from wse.serving.economics import check_stated
from wse.studies.scenario.drafting import draft_name
from wse.studies.scenario.figures import FIGURES, SERVED, TIERS
from wse.studies.scenario.form import MachineForm, ScenarioForm
from wse.studies.scenario.placement import chip_counts, machine_name

MOST_COMBINATIONS: Final = 500
OF_WAFERS: Final = ("wafers", "mesh", "mapping", "schedule", "software", "experts", "batch")
OF_GPUS: Final = ("gpus", "stack", "parallelism")


def check(form: ScenarioForm, file: str) -> None:
    """Check what the keys of a scenario say together; messages begin with ``file``.

    Raises:
        UnknownName: an unknown figure, machine or price; the nearest known one is named.
        BadInput: two things that do not go together, or too many combinations.
    """
    for index, machine in enumerate(form.machines):
        _check_machine(machine, f"{file}: machines[{index}]")
    _check_names(form, file)
    for index, draft in enumerate(form.drafts):
        stray = draft.model_fields_set - {"name", "acceptance"}
        if draft.acceptance is None and stray:
            _refuse(
                f"{file}: drafts[{index}].{min(stray)}", "there is no acceptance; give acceptance too, or leave it out"
            )
    _check_batch(form, file)
    check_stated(f"{file}: prices", form.prices)
    _check_published(form, file)
    _check_size(form, file)


def _check_machine(machine: MachineForm, place: str) -> None:
    given = machine.model_fields_set
    if (machine.wafer is None) == (machine.gpu is None):
        both = "wafer and gpu: a machine is one of them" if machine.wafer else "has neither wafer nor gpu"
        _refuse(place, f"{both}; give wafer or gpu")
    kind, stray = ("wafer", given.intersection(OF_GPUS)) if machine.wafer else ("gpu", given.intersection(OF_WAFERS))
    if stray:
        _refuse(f"{place}.{min(stray)}", f"is not of a machine with {kind}; leave it out")


def _check_names(form: ScenarioForm, file: str) -> None:
    """Refuse two machines or drafts of one name."""
    for key, names in (
        ("machines", [*map(machine_name, form.machines)]),
        ("drafts", [*map(draft_name, form.drafts)]),
    ):
        for name, times in Counter(names).items():
            if times > 1:
                _refuse(f"{file}: {key}", f"{times} have the name {short_repr(name)}; give each its own")


def _check_batch(form: ScenarioForm, file: str) -> None:
    batch, arrivals = form.batch, form.arrivals
    if arrivals is None:
        for key in sorted(batch.model_fields_set - {"users"}):
            _refuse(f"{file}: batch.{key}", "says how requests that arrive are batched; give [arrivals] too")
    elif arrivals.rate is not None and arrivals.load is not None:
        _refuse(f"{file}: arrivals", "rate and load: one follows from the other; give one of them")
    if batch.wait_s is not None and batch.policy != "static":
        _refuse(f"{file}: batch.wait_s", 'is of static batches; give policy = "static" too, or leave it out')
    if form.tiers is not None and "users" in batch.model_fields_set:
        _refuse(f"{file}: batch.users", "with [tiers] users follow from the speed; leave it out")
    if form.tiers is not None and form.tiers.drafts == "fast" and all(d.acceptance is None for d in form.drafts):
        _refuse(f"{file}: tiers.drafts", "there are no drafts; give [[drafts]] with acceptance too, or leave it out")


def _check_published(form: ScenarioForm, file: str) -> None:
    machines, drafts = [*map(machine_name, form.machines)], [*map(draft_name, form.drafts)]
    for index, published in enumerate(form.published):
        place = f"{file}: published[{index}]"
        if published.figure not in FIGURES:
            raise UnknownName("figure", published.figure, FIGURES, where=f"{place}.figure")
        figure = FIGURES[published.figure]
        if published.unit is not None and published.unit != figure.unit:
            _refuse(
                f"{place}.unit = {short_repr(published.unit)}",
                f"{figure.name} is in {figure.unit or 'no unit'}; give the value in that",
            )
        for key, kind, known in (("machines", "machine", machines), ("drafts", "draft", drafts)):
            for name in getattr(published, key) or ():
                if name not in known:
                    raise UnknownName(kind, name, known, where=f"{place}.{key}")
        for figures, key, table in ((TIERS, "tiers", form.tiers), (SERVED, "arrivals", form.arrivals)):
            if figure in figures and table is None:
                _refuse(f"{place}.figure", f"{figure.name} is of [{key}]; give that table too")


def _check_size(form: ScenarioForm, file: str) -> None:
    """Refuse more combinations than anyone waits for."""
    users = form.batch.users if form.tiers is None else form.tiers.plain_speed
    sizes = {
        "models": sum(len(models.name) * len(models.dtype) for models in form.models),
        "prompt_len": len(form.prompt_len),
        "machines": sum(len(chip_counts(machine)) for machine in form.machines),
        "drafts": len(form.drafts),
        "users": len(users),
    }
    combinations = math.prod(sizes.values())
    if combinations > MOST_COMBINATIONS:
        product = " × ".join(f"{size} {name}" for name, size in sizes.items() if size > 1)
        _refuse(file, f"{product} are {combinations:,} combinations; give at most {MOST_COMBINATIONS}")


def _refuse(place: str, reason: str) -> None:
    message = f"{place}: {reason}"
    raise BadInput(message)
