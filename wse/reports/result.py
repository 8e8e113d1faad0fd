"""Base class for the results of studies: typed objects in Python, plain values in JSON.

A result is a frozen dataclass. The type of each field is ``Annotated`` with its description
(``Doc``), from which the reference of the JSON keys is generated. In JSON, the fields become keys
in the same order. Fields that do not apply are None and omitted. A field whose JSON key is a Python
keyword, such as ``pass``, ends in an underscore.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, Self, TypeVar, dataclass_transform, get_args, get_type_hints

import numpy as np

from wse.reports.page.html_table import tables_as_html
from wse.reports.table import Column, Table
from wse.reports.terminal import WIDEST


class Doc(NamedTuple):
    """Description of a field of a result class, for the reference page of JSON keys.

    Attributes:
        text: One-line description.
        unit: Unit of a number, or "".
        or_null: Whether the JSON key is present with the value null if there is no value. Otherwise
            the key is omitted.
    """

    text: str
    unit: str = ""
    or_null: bool = False


R = TypeVar("R", bound="Result")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
@dataclass(frozen=True, kw_only=True)
class Result:
    """Base class for the results of commands and their parts.

    Subclasses become frozen dataclasses without a decorator, and their fields are passed by name. A
    result can be converted to plain values, shown as tables, and displayed in a notebook.
    """

    def __init_subclass__(cls) -> None:
        """Turn a subclass into a frozen dataclass."""
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, equal to the output of the command's ``--json``.

        The keys are the field names without a final underscore. A field that is None is omitted,
        unless null is one of its documented values.
        """
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        kind: type = type(self)
        nulls = _nulls(kind)
        return {name.removesuffix("_"): plain(value) for name, value in values if value is not None or name in nulls}

    @classmethod
    def from_record(cls, values: Mapping[str, Any], **changes: Any) -> Self:
        """Create a result from a mapping of field values.

        Args:
            values: Values, keyed as in the JSON output. Keys that the result does not have are
                ignored.
            **changes: Values of additional fields, which take precedence.
        """
        keys = {field.name: field.name.removesuffix("_") for field in fields(cls)}
        return cls(**{**{name: values[key] for name, key in keys.items() if key in values}, **changes})

    @classmethod
    def from_parts(cls, *parts: object, **values: Any) -> Self:
        """Create a result from given values, and from attributes with the names of its fields.

        Args:
            *parts: Objects whose attributes are copied. If several have an attribute, the first one
                is used.
            **values: Values of fields, which take precedence.
        """
        for field in fields(cls):
            part = next((part for part in parts if hasattr(part, field.name)), None)
            if field.name not in values and part is not None:
                values[field.name] = getattr(part, field.name)
        return cls(**values)

    def convert(self, kind: type[R], **changes: Any) -> R:
        """Copy the fields into a new result of another class, which may have additional fields.

        Args:
            kind: Class of the returned instance.
            **changes: Values of the additional fields.
        """
        return kind(**{field.name: getattr(self, field.name) for field in fields(self)}, **changes)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the result as human-readable tables, as its command prints them.

        The result is empty for classes that are not shown as tables.

        Args:
            detail: True to include details that most readers do not need, as with ``--detail``.
            width: Width of a line in characters.
        """
        return ()

    def _repr_html_(self) -> str | None:
        """Return the result's tables as HTML for a notebook, or None if there are no tables.

        Without tables, the notebook shows Python's own text instead.
        """
        tables = self.tables()
        return tables_as_html(tables) if tables else None


@cache
def docs_of(result: type) -> dict[str, Doc]:
    """Return the field descriptions of a result class, keyed by field name."""
    hints = get_type_hints(result, include_extras=True)
    return {name: doc for name, hint in hints.items() for doc in get_args(hint)[1:] if isinstance(doc, Doc)}


def column_of(result: type, key: str, title: str, **settings: Any) -> Column:
    """Return a table column for a field of a result class, explained by the field's documentation.

    Args:
        result: The class.
        key: Name of the field.
        title: Heading.
        settings: Other arguments of `Column`. ``doc`` replaces the documentation of the field.
    """
    return Column(**{"key": key, "title": title, "doc": docs_of(result)[key].text, **settings})


@cache
def _nulls(result: type) -> frozenset[str]:
    """Return the names of the fields that become null in JSON if they have no value.

    All other fields without a value are omitted.
    """
    return frozenset(name for name, doc in docs_of(result).items() if doc.or_null)


def plain(value: Any) -> Any:
    """Convert a value to types that JSON can represent.

    Results become objects, and tuples and arrays become lists. NaN and infinity become None.
    """
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


Report = dict[str, Any]
"""Report as plain values, with the documented JSON keys of the command line."""


def as_json(report: Result | dict[str, Any]) -> str:
    """Return a report as strict JSON, without NaN or infinity and with a final newline."""
    return json.dumps(plain(report), allow_nan=False) + "\n"
