"""Reader of scenario files: a sweep over all combinations of models, machines and drafts.

The keys of a file are the fields of a sweep. A list of values is an axis. Each ``[[models]]`` table
is combined with each ``[[machines]]`` table and each ``[[drafts]]`` table.
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
from wse.studies.estimate.gpus.check_machine import check_machine
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.drafts.acceptance import read_acceptance
from wse.studies.options.option import replace_options
from wse.studies.scenario.figures import FIGURES, TIERS
from wse.studies.scenario.form import NO_DRAFTS, PublishedForm, ScenarioForm, TiersForm
from wse.studies.sweep.grid import Axis, Grid, Scalar, known_fields
from wse.studies.sweep.request import TABLES, axes_of, check_names

MOST_COMBINATIONS: Final = 500
REFUSED: Final = {
    "replicas": "a scenario is of one machine; leave it out",
    "price": "give prices in the table [prices] or with --price",
    "think_time": "users of a scenario do not pause; leave it out",
}
"""Sweep fields that a scenario does not accept, with the remedy for the error message."""
COLUMNS: Final = {"model", "dtype", "prompt_len", "wafer", "wafers", "gpu", "gpus", "stack", "users"}
"""Fields with their own column in results. Draft options are part of the draft's name instead."""


class _Table(NamedTuple):
    """A table ``[[models]]``, ``[[machines]]`` or ``[[drafts]]`` of a scenario file.

    Attributes:
        name: Name that the file gives to the machine or drafts; None if it gives none.
        axes: Values of each setting in the table, keyed by setting name. If settings have several
            values, all combinations are estimated.
    """

    name: str | None
    axes: dict[str, Axis]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One combination of a scenario's settings, for which speed and cost are estimated.

    Attributes:
        request: Estimate options.
        machine: Name of the machine.
        drafts: Name of the drafts, or ``none``.
        other: Values of all other settings that the scenario varies, keyed by setting name.
    """

    request: EstimateRequest
    machine: str
    drafts: str
    other: Mapping[str, Scalar]

    @property
    def placement(self) -> EstimateRequest:
        """The estimate request without its number of users and its drafts.

        Settings for which this request is equal share one compiled model.
        """
        return replace_options(self.request, users=None, draft=None, draft_model=None, draft_place=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Content of a scenario file: a question, settings to estimate, and published figures.

    Attributes:
        name: Name of a bundled scenario, or path of the file.
        title: Title of the scenario.
        question: Question answered by the scenario.
        tiers: The plain and the fast service tier; None without tiers.
        published: Published figures.
        settings: All combinations of settings, grouped by machine.
        note: Prices that were given but that no machine of the scenario uses, or None.
    """

    name: str
    title: str
    question: str
    tiers: TiersForm | None
    published: tuple[PublishedForm, ...]
    settings: tuple[Setting, ...]
    note: str | None = None


def bundled_scenarios() -> dict[str, Path]:
    """Return the paths of the bundled scenario files, keyed by scenario name."""
    folder = Path(str(files("wse") / "data" / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_scenario(source: str | Path | Mapping[str, Any]) -> Scenario:
    """Read and check a scenario: a question, settings to estimate, and published figures.

    Args:
        source: Name of a bundled scenario, a TOML file, or a mapping with the content of such a
            file. A bundled name takes precedence over a file of the same name.

    Raises:
        UnknownName: The scenario, a key, a figure, a model or a machine is unknown. The message
            suggests the closest match.
        BadInput: The file cannot be read, or a value has the wrong type, range or unit, or
            contradicts another value.
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
    """Validate the content of a scenario file and return the scenario.

    Args:
        name: Name of the scenario, for error messages.
        table: Content of the file.
    """
    form_table = {key: value for key, value in table.items() if key in ScenarioForm.model_fields}
    form = ScenarioForm.read(form_table, name)
    tiers = None if form.tiers is None else TiersForm.read(form.tiers, f"{name}: tiers")
    common_settings = {key: value for key, value in table.items() if key not in form_table}
    for key in common_settings:
        if key not in (*known_fields(), *TABLES):
            raise UnknownName("key", key, (*ScenarioForm.model_fields, *known_fields()), place=name)
    check_stated(f"{name}: prices", form.prices)
    settings = tuple(_settings(form, tiers, common_settings, name))
    if tiers is not None:
        _check_tiers(settings, tiers, name)
    published_tables = {f"{name}: published[{index}]": figure for index, figure in enumerate(form.published)}
    published = tuple(PublishedForm.read(figure, place) for place, figure in published_tables.items())
    for figure, place in zip(published, published_tables, strict=True):
        _check_published(figure, settings, place, has_tiers=tiers is not None)
    return Scenario(
        name=name, title=form.title, question=form.question, tiers=tiers, published=published, settings=settings
    )


def _settings(
    form: ScenarioForm, tiers: TiersForm | None, common_settings: Mapping[str, Any], name: str
) -> Iterator[Setting]:
    """Yield all combinations of a scenario's settings.

    1. Read the tables of models, machines and drafts. Every model needs the field ``model``, and
       names of machines and of drafts must be unique.
    2. Combine each machine with each model and each draft, and with all values of settings that are
       given as lists. Refuse more than `MOST_COMBINATIONS` combinations.
    3. Yield a setting for each combination.

    Args:
        form: The validated top level of the file.
        tiers: The service tiers, or None. If tiers have several plain speeds, each counts as a
            separate combination.
        common_settings: Settings outside any table, which apply to all combinations.
        name: Name of the scenario, for error messages.

    Raises:
        BadInput: A table is invalid, there are too many combinations, or a setting names an
            unusable item.
    """
    # 1. Read the tables.
    common = _read_table(common_settings, name)
    models, machines, drafts = (
        [_read_table(table, f"{name}: {key}[{index}]") for index, table in enumerate(getattr(form, key))]
        for key in ("models", "machines", "drafts")
    )
    for index, model in enumerate(models):
        if model.name is not None or "model" not in common.axes | model.axes:
            raise BadInput(
                f"{name}: models[{index}]: has no model, or a name; give model, as of wse estimate, or a list of them"
            )
    for key, tables in (("machines", machines), ("drafts", drafts)):
        for table_name, times in Counter(table.name for table in tables if table.name).items():
            if times > 1:
                message = f"{name}: {key}: {times} tables have the name {short_repr(table_name)}; give each its own"
                raise BadInput(message)
    # 2. Combine them.
    grids = [
        (machine, draft, Grid((*(common.axes | model.axes | machine.axes | draft.axes).values(),)))
        for machine, model, draft in product(machines, models, drafts)
    ]
    speeds = 1 if tiers is None else len(tiers.plain_speed)
    count = speeds * sum(len(grid) for *_, grid in grids)
    if count > MOST_COMBINATIONS:
        raise BadInput(f"{name}: {count:,} combinations are too many; give at most {MOST_COMBINATIONS}")
    # 3. Yield the settings.
    for machine, draft, grid in grids:
        varied_axes = [axis.name for axis in grid.axes if len(axis.values) > 1]
        other_axes = [axis for axis in varied_axes if axis not in COLUMNS and not axis.startswith("draft")]
        for index in range(len(grid)):
            request = replace_options(grid.request(index), economics=form.prices or None)
            with _errors_at(name):
                check_machine(request)
                if request.draft is not None:
                    read_acceptance(request.draft)
                if request.drafts.draft_model is not None:
                    load_model(request.drafts.draft_model, with_weights=False)
            values = grid.setting(index)
            yield Setting(
                request=request,
                machine=machine.name or str(request.machine.wafer if request.gpu is None else request.gpu),
                drafts=draft.name or _draft_name(request),
                other={axis: values[axis] for axis in other_axes},
            )


def _read_table(table: Mapping[str, Any], place: str) -> _Table:
    """Return the name and settings from a table of models, machines or drafts.

    Args:
        table: The table as read from the file.
        place: Name of the file and the table, for error messages.

    Raises:
        BadInput: The name is not a string, or a setting is invalid or not accepted in scenarios.
    """
    name = table.get("name")
    if name is not None and not isinstance(name, str):
        raise BadInput(f"{place}.name = {short_repr(name)}: give a text")
    axes = axes_of({key: value for key, value in table.items() if key != "name"}, place)
    for key, remedy in REFUSED.items():
        if key in axes:
            raise BadInput(f"{place}: {key}: {remedy}")
    with _errors_at(place):
        check_names(Grid(tuple(axes.values())))
    return _Table(name, axes)


@contextmanager
def _errors_at(place: str) -> Iterator[None]:
    """Prefix the message of every BadInput that is raised in this context.

    Args:
        place: Text of the prefix: the name of the scenario, and of a table if the error is in one.
    """
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from error


def _draft_name(request: EstimateRequest) -> str:
    """Derive a name for unnamed drafts: the draft model, if any, and the acceptance."""
    if request.draft is None:
        return NO_DRAFTS
    return request.draft if request.drafts.draft_model is None else f"{request.drafts.draft_model}, {request.draft}"


def _check_tiers(settings: Sequence[Setting], tiers: TiersForm, name: str) -> None:
    """Check that the settings of a scenario are compatible with service tiers.

    Raises:
        BadInput: A setting specifies the number of users. With tiers, this number is computed from
            the promised speed. Or only the fast tier uses drafts, and the scenario has none.
    """
    if any(setting.request.serving.users is not None for setting in settings):
        raise BadInput(f"{name}: users: with [tiers] users follow from the speed; leave it out")
    if tiers.drafts == "fast" and all(setting.request.draft is None for setting in settings):
        message = f"{name}: tiers.drafts: there are no drafts; add [[drafts]] with draft, or leave tiers.drafts out"
        raise BadInput(message)


def _check_published(published: PublishedForm, settings: Sequence[Setting], place: str, *, has_tiers: bool) -> None:
    """Check that a published figure is known, and that its machines and drafts are in the scenario.

    Args:
        published: The published figure.
        settings: All combinations of settings of the scenario.
        place: Name of the file and the table, for error messages.
        has_tiers: Whether the scenario has a plain and a fast service tier.

    Raises:
        UnknownName: There is no such figure, or the scenario has no machine or drafts of a given
            name.
        BadInput: The unit is wrong, or the figure needs tiers and the scenario has none.
    """
    if published.figure not in FIGURES:
        raise UnknownName("figure", published.figure, FIGURES, place=f"{place}.figure")
    figure = FIGURES[published.figure]
    if published.unit is not None and published.unit != figure.unit:
        unit = figure.unit or "no unit"
        message = f"{place}.unit = {short_repr(published.unit)}: {figure.name} is in {unit}; give the value in that"
        raise BadInput(message)
    for key, kind in (("machines", "machine"), ("drafts", "draft")):
        known_names = dict.fromkeys(str(getattr(setting, kind if kind == "machine" else key)) for setting in settings)
        for name in getattr(published, key) or ():
            if name not in known_names:
                raise UnknownName(kind, name, known_names, place=f"{place}.{key}")
    if figure.part == TIERS and not has_tiers:
        raise BadInput(f"{place}.figure: {figure.name} needs tiers; add the table [tiers]")
