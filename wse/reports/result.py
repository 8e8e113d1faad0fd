"""Result: the base class of the results of studies, typed in Python and plain as JSON.

A result is a frozen dataclass. Each field says in ``Annotated`` what it is (`Doc`); the reference of JSON
keys is generated from that. JSON has the fields as keys in their order; what does not apply is None and left out.
A key that is a word of Python's, such as ``pass``, is a field with an underscore at its end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, Self, TypeVar, get_args, get_type_hints

import numpy as np

from wse.reports.page.html_table import tables_as_html
from wse.reports.table import Table
from wse.reports.terminal import WIDEST


class Doc(NamedTuple):
    """Description of a result's field: one line for the reference, and the unit where the value is a number with one.

    A key ``or_null`` is there in any case, as null where there is no value.
    """

    text: str
    unit: str = ""
    or_null: bool = False


R = TypeVar("R", bound="Result")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The base of the results of studies, and of their parts."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values: the same keys and values as the command line's ``--json``."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        kind: type = type(self)
        nulls = _nulls(kind)
        return {name.removesuffix("_"): plain(value) for name, value in values if value is not None or name in nulls}

    @classmethod
    def from_record(cls, values: Mapping[str, Any], **more: Any) -> Self:
        """Return the result with the ``values`` that are under keys of its own, and ``more``."""
        keys = {field.name: field.name.removesuffix("_") for field in fields(cls)}
        return cls(**{**{name: values[key] for name, key in keys.items() if key in values}, **more})

    def convert(self, kind: type[R], **more: Any) -> R:
        """Return the result as one of a ``kind`` that has its fields and ``more``."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(self)}, **more)

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the tables that show the result to people, those that its command prints; none where it has no view.

        Args:
            detail: Whether all is shown that there is, in addition to what most people look for.
            width: Characters of a line.
        """
        return ()

    def _repr_html_(self) -> str | None:
        """Return the result in a notebook: its tables, or nothing, so that Python's own text is shown."""
        tables = self.tables()
        return tables_as_html(tables) if tables else None


@cache
def docs_of(result: type) -> dict[str, Doc]:
    """Return the descriptions of a result's fields, by name."""
    hints = get_type_hints(result, include_extras=True)
    return {name: doc for name, hint in hints.items() for doc in get_args(hint)[1:] if isinstance(doc, Doc)}


@cache
def _nulls(result: type) -> frozenset[str]:
    """Return the fields of a result that are null, and not left out, where they have no value."""
    return frozenset(name for name, doc in docs_of(result).items() if doc.or_null)


def plain(value: Any) -> Any:
    """``value`` as JSON's own kinds of value.

    Results become objects, tuples and arrays lists; a number that is none (NaN, infinity) becomes None.
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
