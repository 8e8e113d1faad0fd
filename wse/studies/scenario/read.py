"""Scenarios from files that nobody has checked, from mappings, and those that come with wse, by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from wse.errors import BadInput, UnknownName
from wse.files import names_toml_file, read_toml
from wse.studies.scenario.check import check
from wse.studies.scenario.fault import refuse
from wse.studies.scenario.form import ScenarioForm


class Scenario(NamedTuple):
    """A scenario.

    Attributes:
        name: Its name, or the path of its file.
        form: What the file says.
    """

    name: str
    form: ScenarioForm


def bundled_scenarios() -> dict[str, Path]:
    """The files of the scenarios that come with wse, by name."""
    folder = Path(str(files("wse") / "data" / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_scenario(source: str | Path | Mapping[str, Any]) -> Scenario:
    """The scenario of a bundled name, a TOML file, or a mapping with what such a file holds.

    A name wins over a file. Names of models, machines and drafts are checked when they are worked out.

    Raises:
        UnknownName: there is no such scenario, or an unknown key or figure; the nearest known one is named.
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
    """The checked scenario of a table."""
    try:
        form = ScenarioForm.model_validate(table)
    except ValidationError as error:
        raise refuse(error, table, name) from error
    check(form, name)
    return Scenario(name, form)
