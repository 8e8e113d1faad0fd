"""The request of a scenario: a saved sweep whose settings are the products of models, machines and drafts.

The keys of a file are fields of a sweep, where a list is an axis. Tables ``[[models]]``, ``[[machines]]`` and
``[[drafts]]`` are alternatives: each model is set on each machine with each draft.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from wse.errors import BadInput, UnknownName
from wse.files import names_toml_file, read_toml, short_repr
from wse.models.load import load_model
from wse.serving.economics import check_stated
from wse.studies.estimate.gpus.prepare import STACK, check_machine
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.acceptance import read_acceptance
from wse.studies.options.option import replace_options
from wse.studies.scenario.figures import FIGURES, TIERS
from wse.studies.scenario.form import NO_DRAFTS, PublishedForm, ScenarioForm, TiersForm
from wse.studies.sweep.fields import Scalar, known_fields
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.request import TABLES, axes_of, check_names

MOST_COMBINATIONS: Final = 500
REFUSED: Final = {
    "replicas": "a scenario is of one machine; leave it out",
    "price": "give prices in the table [prices]",
}
"""Fields of a sweep that a scenario does not have, with the remedy."""
COLUMNS: Final = {"model", "dtype", "prompt_len", "wafer", "wafers", "gpu", "gpus", "users"}
"""Fields that results have under names of their own; those of drafts are in the name of the drafts."""


class _Table(NamedTuple):
    """A table of models, machines or drafts: its name where it has one, and its axes."""

    name: str | None
    axes: dict[str, Axis]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A combination that is requested.

    Attributes:
        request: Its estimate.
        machine: The name of its machine.
        drafts: The name of its drafts.
        other: Its values on further axes that have several.
    """

    request: EstimateRequest
    machine: str
    drafts: str
    other: Mapping[str, Scalar]

    @property
    def placement(self) -> EstimateRequest:
        """The request without drafts and users: of settings that are equal in it, one compilation serves all."""
        return replace_options(self.request, users=None, draft=None, draft_model=None, draft_place=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario: its name or the path of its file, what the file says, and its settings, machine by machine."""

    name: str
    title: str
    question: str
    tiers: TiersForm | None
    published: tuple[PublishedForm, ...]
    settings: tuple[Setting, ...]


def bundled_scenarios() -> dict[str, Path]:
    """Return the files of the scenarios that come with wse, by name."""
    folder = Path(str(files("wse") / "data" / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_scenario(source: str | Path | Mapping[str, Any]) -> Scenario:
    """The scenario of a bundled name, a TOML file, or a mapping with what such a file holds. A name wins over a file.

    Raises:
        UnknownName: there is no such scenario, or an unknown key, figure, model or machine; with the nearest.
        BadInput: the file cannot be read, or something in it has another type, range or unit, or does not go together.
    """
    if isinstance(source, Mapping):
        return _scenario("scenario", dict(source))
    bundled = bundled_scenarios()
    if str(source) in bundled:
        return _scenario(str(source), read_toml(bundled[str(source)], BadInput))
    if not names_toml_file(str(source)):
        raise UnknownName("scenario", str(source), (*bundled, "a TOML file"))
    return _scenario(str(source), read_toml(Path(source), BadInput))


def _scenario(name: str, table: dict[str, Any]) -> Scenario:
    """Return the checked scenario of a table."""
    own = {key: value for key, value in table.items() if key in ScenarioForm.model_fields}
    form = ScenarioForm.read(own, name)
    tiers = None if form.tiers is None else TiersForm.read(form.tiers, f"{name}: tiers")
    shared = {key: value for key, value in table.items() if key not in own}
    for key in shared:
        if key not in (*known_fields(), *TABLES):
            raise UnknownName("key", key, (*ScenarioForm.model_fields, *known_fields()), where=name)
    check_stated(f"{name}: prices", form.prices)
    settings = tuple(_settings(form, tiers, shared, name))
    if tiers is not None:
        _check_tiers(settings, tiers, name)
    places = {f"{name}: published[{index}]": one for index, one in enumerate(form.published)}
    published = tuple(PublishedForm.read(one, place) for place, one in places.items())
    for one, place in zip(published, places, strict=True):
        _check_published(one, settings, place, has_tiers=tiers is not None)
    return Scenario(
        name=name, title=form.title, question=form.question, tiers=tiers, published=published, settings=settings
    )


def _settings(form: ScenarioForm, tiers: TiersForm | None, shared: Mapping[str, Any], name: str) -> Iterator[Setting]:
    """Yield the settings of a scenario. Raises BadInput for more than `MOST_COMBINATIONS`."""
    common = _read_table(shared, name)
    models, machines, drafts = (
        [_read_table(table, f"{name}: {key}[{index}]") for index, table in enumerate(getattr(form, key))]
        for key in ("models", "machines", "drafts")
    )
    for index, model in enumerate(models):
        if model.name is not None or "model" not in common.axes | model.axes:
            message = (
                f"{name}: models[{index}]: has no model, or a name; give model, as of wse estimate, or a list of them"
            )
            raise BadInput(message)
    for key, tables in (("machines", machines), ("drafts", drafts)):
        for given, times in Counter(table.name for table in tables if table.name).items():
            if times > 1:
                message = f"{name}: {key}: {times} have the name {short_repr(given)}; give each its own"
                raise BadInput(message)
    combined = [
        (machine, draft, Grid((*(common.axes | model.axes | machine.axes | draft.axes).values(),)))
        for machine, model, draft in product(machines, models, drafts)
    ]
    speeds = 1 if tiers is None else len(tiers.plain_speed)
    count = speeds * sum(len(grid) for *_, grid in combined)
    if count > MOST_COMBINATIONS:
        message = f"{name}: {count:,} combinations are too many; give at most {MOST_COMBINATIONS}"
        raise BadInput(message)
    for machine, draft, grid in combined:
        several = [axis.name for axis in grid.axes if len(axis.values) > 1]
        others = [axis for axis in several if axis not in COLUMNS and not axis.startswith("draft")]
        for index in range(len(grid)):
            request = replace_options(grid.request(index), economics=form.prices or None)
            with _told_at(name):
                check_machine(request)
                if request.draft is not None:
                    read_acceptance(request.draft)
                if request.drafts.draft_model is not None:
                    load_model(request.drafts.draft_model, with_weights=False)
            values = grid.setting(index)
            yield Setting(
                request=request,
                machine=machine.name or _machine_name(request),
                drafts=draft.name or _draft_name(request),
                other={axis: values[axis] for axis in others},
            )


def _read_table(table: Mapping[str, Any], place: str) -> _Table:
    """Return the axes of a table, with names that are there."""
    name = table.get("name")
    if name is not None and not isinstance(name, str):
        message = f"{place}.name = {short_repr(name)}: give a text"
        raise BadInput(message)
    axes = axes_of({key: value for key, value in table.items() if key != "name"}, place)
    for key, remedy in REFUSED.items():
        if key in axes:
            message = f"{place}: {key}: {remedy}"
            raise BadInput(message)
    with _told_at(place):
        check_names(Grid(tuple(axes.values())))
    return _Table(name, axes)


@contextmanager
def _told_at(place: str) -> Iterator[None]:
    """Have errors of the user begin with a place."""
    try:
        yield
    except BadInput as error:
        message = f"{place}: {error}"
        raise BadInput(message) from error


def _machine_name(request: EstimateRequest) -> str:
    return str(request.machine.wafer) if request.gpu is None else f"{request.gpu}, {request.gpu_serving.stack or STACK}"


def _draft_name(request: EstimateRequest) -> str:
    if request.draft is None:
        return NO_DRAFTS
    return request.draft if request.drafts.draft_model is None else f"{request.drafts.draft_model}, {request.draft}"


def _check_tiers(settings: Sequence[Setting], tiers: TiersForm, name: str) -> None:
    if any(one.request.serving.users is not None for one in settings):
        message = f"{name}: users: with [tiers] users follow from the speed; leave it out"
        raise BadInput(message)
    if tiers.drafts == "fast" and all(one.request.draft is None for one in settings):
        message = f"{name}: tiers.drafts: there are no drafts; give [[drafts]] with draft too, or leave it out"
        raise BadInput(message)


def _check_published(published: PublishedForm, settings: Sequence[Setting], place: str, *, has_tiers: bool) -> None:
    if published.figure not in FIGURES:
        raise UnknownName("figure", published.figure, FIGURES, where=f"{place}.figure")
    figure = FIGURES[published.figure]
    if published.unit is not None and published.unit != figure.unit:
        unit = figure.unit or "no unit"
        message = f"{place}.unit = {short_repr(published.unit)}: {figure.name} is in {unit}; give the value in that"
        raise BadInput(message)
    for key, kind in (("machines", "machine"), ("drafts", "draft")):
        known = dict.fromkeys(str(getattr(setting, kind if kind == "machine" else key)) for setting in settings)
        for name in getattr(published, key) or ():
            if name not in known:
                raise UnknownName(kind, name, known, where=f"{place}.{key}")
    if figure in TIERS and not has_tiers:
        message = f"{place}.figure: {figure.name} is of [tiers]; give that table too"
        raise BadInput(message)
