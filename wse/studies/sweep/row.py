"""Entry of a sweep setting in the journal: a row of values by column, or an error."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_origin, get_type_hints

import pydantic

from wse.errors import WseBug, WseError
from wse.reports.result import Result
from wse.reports.rows_csv import flat_items
from wse.studies.estimate.cached import cached_estimate
from wse.studies.estimate.gpus.check_machine import check_machine
from wse.studies.estimate.gpus.study import estimate_on_gpus
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import union_parts

Cell = bool | int | float | str | None
Row = dict[str, Cell]

_Cell = bool | int | Annotated[float, pydantic.Field(allow_inf_nan=False)] | str | None


class JournalEntry(pydantic.BaseModel):
    """Result of one setting of a sweep: its values, keyed by column, or an error."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    setting: Annotated[int, pydantic.Field(ge=0)]
    row: dict[str, _Cell] = {}
    error: str = ""

    def line(self) -> bytes:
        """Format the entry as a line of JSON."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


def estimate_setting(setting: int, request: EstimateRequest) -> tuple[JournalEntry, str]:
    """Estimate a setting of a sweep. Exceptions are not raised; they become errors of the entry.

    Args:
        setting: Index of the setting.
        request: Estimate request for the setting.

    Returns:
        The entry for the journal, and the traceback of a bug in wse; empty if there was none.
    """
    try:
        check_machine(request)
        result = cached_estimate(request) if request.gpu is None else estimate_on_gpus(request)
        return JournalEntry(setting=setting, row=flat(result.to_dict())), ""
    except WseError as error:
        return JournalEntry(setting=setting, error=str(error)), ""
    except Exception as error:
        text = f"a bug of wse: {type(error).__name__}: {error}"
        return JournalEntry(setting=setting, error=text), traceback.format_exc()


def column(name: str) -> str:
    """Return the name of the table column for an option, a constant, or a key of a report.

    >>> column("wafer.hop_cycles")
    'wafer_hop_cycles'
    """
    return name.replace(".", "_")


def can_have_column(kind: type[Result], name: str) -> bool:
    """Return whether a result class has a field, possibly nested, that a column name denotes.

    The column name of a nested field consists of all field names on the path, joined by
    underscores, such as ``decode_cycles``.

    Args:
        kind: Class of the result.
        name: Name of the column. If a field is a mapping, any key is accepted after its name.
    """
    for field_name, annotation in get_type_hints(kind).items():
        key = field_name.removesuffix("_")
        if name == key:
            return True
        if not name.startswith(f"{key}_"):
            continue
        for part in union_parts(annotation):
            if get_origin(part) is Mapping or (
                isinstance(part, type) and issubclass(part, Result) and can_have_column(part, name[len(key) + 1 :])
            ):
                return True
    return False


def columns_of(kind: type[Result]) -> Iterator[str]:
    """Yield the names of the table columns of a result class, except the keys of mappings.

    Args:
        kind: Class of the result.
    """
    for field_name, annotation in get_type_hints(kind).items():
        key = field_name.removesuffix("_")
        results = [part for part in union_parts(annotation) if isinstance(part, type) and issubclass(part, Result)]
        yield from (f"{key}_{name}" for part in results for name in columns_of(part))
        if not results:
            yield key


def flat(report: Mapping[str, Any]) -> Row:
    """Flatten a nested report to a table row with all of its numbers, Booleans and strings.

    Keys of nested mappings are joined by underscores. Lists are omitted.

    >>> flat({"model": {"bytes": 2}, "decode": {"cycles_by": {"hops": 1.5}}, "stages": [1, 2]})
    {'model_bytes': 2, 'decode_cycles_by_hops': 1.5}
    """
    row: Row = {}
    for name, cell in ((column(key), cell) for key, cell in flat_items(report) if not isinstance(cell, list)):
        if name in row:
            raise WseBug(f"two keys of a report are both column {name}")
        row[name] = cell
    return row
