"""The first fault of a scenario file as one line: the place, the value and the remedy, or an unknown key's nearest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from wse.errors import BadInput, UnknownName
from wse.files import short_repr
from wse.studies.scenario.form import ScenarioForm


class _Place(NamedTuple):
    """A place in a file: the keys that lead there, what it may hold, the form of its table, and what stands there."""

    keys: tuple[str | int, ...]
    remedy: str
    form: type[BaseModel]
    value: Any


def refuse(error: ValidationError, table: Any, file: str) -> BadInput:
    """The error of a ``file`` whose ``table`` is not of the form of a scenario."""
    faults = error.errors(include_url=False)
    for fault in faults:
        if fault["type"] == "extra_forbidden":
            place = _place(fault["loc"][:-1], table)
            return UnknownName("key", str(fault["loc"][-1]), place.form.model_fields, where=_text(file, place.keys))
    first = faults[0]
    same = [fault for fault in faults if fault["loc"][: len(first["loc"]) - 1] == first["loc"][:-1]]
    place = max((_place(fault["loc"], table) for fault in same), key=lambda place: len(place.keys))
    if first["type"] == "missing":
        key = str(first["loc"][-1])
        message = f"{_text(file, place.keys)}: has no {key}; give {place.form.model_fields[key].description}"
    else:
        message = f"{_text(file, place.keys)} = {short_repr(place.value)}: give {place.remedy}"
    return BadInput(message)


def _text(file: str, keys: tuple[str | int, ...]) -> str:
    """A place in words, such as ``file.toml: machines[1].wafers``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"{file}: {text.removeprefix('.')}" if text else file


def _place(loc: tuple[str | int, ...], table: Any) -> _Place:
    """The place of pydantic's location, whose parts may be types of a union too, or an index into a value alone."""
    keys: list[str | int] = []
    form: type[BaseModel] = ScenarioForm
    value, remedy = table, "the tables of a scenario"
    for part in loc:
        if isinstance(value, Mapping) and part in value:
            field = form.model_fields.get(str(part))
            if field is not None:
                remedy = str(field.description)
                form = next(_forms(field.annotation), form)
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            continue
        keys.append(part)
    return _Place(tuple(keys), remedy, form, value)


def _forms(hint: Any) -> Iterator[type[BaseModel]]:
    """The forms of tables in a type."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    for part in get_args(hint):
        yield from _forms(part)
