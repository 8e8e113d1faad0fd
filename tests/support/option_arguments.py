"""What an argument of the Python API has to be, by the option that it stands for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from wse.hardware.quantity import TOKEN
from wse.studies.options.arguments import argument_name
from wse.studies.options.option import RequestField, options_of, union_parts


class Argument(NamedTuple):
    """An argument: its type, its default, and the form and meaning that the docstring gives."""

    type: Any
    default: Any
    form: str
    meaning: str


def arguments_of(request: type) -> dict[str, Argument]:
    """Return the arguments that the options of a request class are, by name."""
    return {argument_name(field): _argument(field) for field in options_of(request).values()}


def _argument(field: RequestField) -> Argument:
    option = field.option
    doc = re.sub(r"--([a-z-]+)", lambda match: match[1].replace("-", "_"), option.doc)
    none = f" None is {option.none}." if option.none not in ("", "none") and field.default is None else ""
    unit = f" A number is in {option.unit}; a text has a unit." if option.unit not in ("", TOKEN) else ""
    form = option.metavar if option.metavar and not option.metavar.isupper() else ""
    default = inspect.Parameter.empty if option.required else field.default
    return Argument(_type(field), default, form, f"{doc}{none}{unit}")


def _type(field: RequestField) -> Any:
    """Return the type: any sequence for a tuple, and a text too where the command line reads one."""
    parts = [Sequence[get_args(part)[0]] if get_origin(part) is tuple else part for part in union_parts(field.hint)]  # type: ignore[misc]
    if field.is_text and str not in parts:
        parts.append(str)
    return reduce(or_, sorted(parts, key=lambda part: part is NoneType))
