"""Arguments of a Python function, made of the options of a request.

`takes_options_of` gives a function of a request one argument for each option, with the option's default and meaning,
and checks what it is called with: options by their fields, the function's own arguments by their annotations. An
argument has the option's name, with underscores: ``--new-tokens`` is ``new_tokens``.
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce, wraps
from inspect import BoundArguments, Parameter, Signature
from numbers import Integral, Real
from operator import or_
from pathlib import Path
from types import GenericAlias, NoneType, SimpleNamespace
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from wse.errors import BadInput, UnknownName
from wse.hardware.quantity import TOKEN
from wse.request.option import RequestField, options_of, request_of, union_parts

R = TypeVar("R")

_KINDS: Final[dict[Any, tuple[str, str]]] = {
    str: ("a text", "texts"),
    Path: ("a path", "paths"),
    bool: ("True or False", "truth values"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    NoneType: ("None", "None"),
    Callable: ("a function", "functions"),
}
"""One value of a type in words, and several."""
_ACCEPTED: Final[dict[Any, tuple[Any, Callable[[Any], Any]]]] = {
    int: (Integral, int),
    float: (Real, float),
    str: ((str, os.PathLike), os.fspath),
}
"""The values that count as one of a type, and what makes one of them."""


def takes_options_of(request: type) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A decorator for a function whose first parameter is a ``request``: callers give its options instead.

    Options that the command line takes without a name may stand without one in Python too, behind what the function
    itself takes so. Signature and docstring have all arguments.
    """
    fields = {argument_name(field): field for field in options_of(request).values()}

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        function_signature = inspect.signature(function)
        first, *others = function_signature.parameters.values()
        signature = function_signature.replace(parameters=_parameters(fields, others))
        hints = _hints(function, others)

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> R:
            values = _bind(function.__name__, signature, arguments, keywords)
            options = {
                fields[name].name: argument_value(fields[name], values[name]) for name in fields if name in values
            }
            own = {name: checked_value(name, hints[name], values[name]) for name in hints if name in values}
            return function(**{first.name: request_of(request, options)}, **own)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = _docstring(function.__doc__ or "", fields, signature.parameters)
        return call

    return decorate


def checks_arguments(function: Callable[..., R]) -> Callable[..., R]:
    """A decorator for a function without a request: its arguments are checked by their annotations."""
    signature = inspect.signature(function)
    hints = _hints(function, signature.parameters.values())

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> R:
        values = _bind(function.__name__, signature, arguments, keywords)
        checked = {name: checked_value(name, hints[name], value) for name, value in values.items()}
        bound = BoundArguments(signature, checked)
        return function(*bound.args, **bound.kwargs)

    return call


def _hints(function: Callable[..., Any], parameters: Collection[Parameter]) -> dict[str, Any]:
    """The types of some of a function's parameters; a list of them for one that takes as many as are given."""
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    hints = get_type_hints(SimpleNamespace(__annotations__=annotations), vars(inspect.getmodule(function)))
    several = [parameter.name for parameter in parameters if parameter.kind is Parameter.VAR_POSITIONAL]
    return hints | {name: GenericAlias(tuple, (hints[name], ...)) for name in several}


def checked_value(name: str, hint: Any, value: Any, form: str = "") -> Any:
    """The value of an argument as its type, with ``form`` behind the remedy.

    Raises:
        BadInput: the value is of another type.
    """
    try:
        return value_as(hint, value)
    except TypeError as error:
        message = f"{name}={value!r}: give {' or '.join(_kinds(hint))}{form}"
        raise BadInput(message) from error


def argument_name(field: RequestField) -> str:
    """The name of the argument that an option is."""
    return field.name if field.option.positional else field.flag.removeprefix("--").replace("-", "_")


def argument_type(field: RequestField) -> Any:
    """The type of what an argument takes: any sequence for a tuple, and a text where the command line reads one."""
    parts = [Sequence[get_args(part)[0]] if get_origin(part) is tuple else part for part in union_parts(field.hint)]  # type: ignore[misc]
    if field.is_text and str not in parts:
        parts.append(str)
    return reduce(or_, sorted(parts, key=lambda part: part is NoneType))


def argument_value(field: RequestField, value: Any) -> Any:
    """The field's value of what was given from Python.

    A text for what is no text is read as the command line reads it: ``wafers="auto"``, ``link_latency="500ns,5us"``.

    Raises:
        BadInput: the value is of another type, or a text that cannot be read.
    """
    if isinstance(value, str) and field.is_text:
        return field.value((value,) if field.option.repeats else value)
    return field.spelled(checked_value(argument_name(field), field.hint, value, _form(field)))


def _bind(function: str, signature: Signature, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, by name. Raises TypeError, as Python does, where they do not fit the function."""
    for name in keywords:
        if name not in signature.parameters:
            raise TypeError(str(UnknownName("argument", name, signature.parameters, where=f"wse.{function}")))
    try:
        return dict(signature.bind(*arguments, **keywords).arguments)
    except TypeError as error:
        message = f"wse.{function}: {error}"
        raise TypeError(message) from None


def value_as(hint: Any, value: Any) -> Any:
    """A value as a type that an argument has, any iterable as a tuple. Raises TypeError where it is of another type."""
    items = tuple(value) if is_list(value) else None
    for part in union_parts(hint):
        if get_origin(part) in (tuple, Sequence):
            if items is not None:
                with suppress(TypeError):
                    return tuple(value_as(get_args(part)[0], item) for item in items)
            continue
        if get_origin(part) is Mapping and isinstance(value, Mapping):
            with suppress(TypeError):
                key_hint, item_hint = get_args(part)
                return {value_as(key_hint, key): value_as(item_hint, item) for key, item in value.items()}
            continue
        kind = get_origin(part) or part
        accepted, convert = _ACCEPTED.get(kind, (kind, None))
        if kind is Any or (isinstance(value, accepted) and isinstance(value, bool) == (kind is bool)):
            return convert(value) if convert else value
    raise TypeError


def is_list(value: Any) -> bool:
    """Whether an argument gives several values, in any iterable but a text or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _kinds(hint: Any, several: int = 0) -> Iterator[str]:
    """The kinds of value that a type stands for, in words: of one value with 0, of several with 1."""
    for part in union_parts(hint):
        if get_origin(part) in (tuple, Sequence):
            yield f"{('a list', 'lists')[several]} of {' or '.join(_kinds(get_args(part)[0], 1))}"
        elif get_origin(part) is Mapping:
            yield f"{('a mapping', 'mappings')[several]} of {' or '.join(_kinds(get_args(part)[0], 1))}"
        else:
            yield _KINDS[get_origin(part) or part][several]


def _parameters(fields: Mapping[str, RequestField], function_parameters: Sequence[Parameter]) -> list[Parameter]:
    """The options as parameters, and a function's own beside its request: those without a name first, the rest last."""
    keyword_only = Parameter.KEYWORD_ONLY
    options = [
        Parameter(
            name,
            Parameter.POSITIONAL_OR_KEYWORD if field.option.positional else keyword_only,
            default=Parameter.empty if field.option.required else field.default,
            annotation=argument_type(field),
        )
        for name, field in fields.items()
    ]
    first = [p for p in function_parameters if p.kind is not keyword_only]
    last = [p for p in function_parameters if p.kind is keyword_only]
    return sorted([*first, *options, *last], key=lambda parameter: parameter.kind)


def argument_docs(docstring: str) -> dict[str, str]:
    """The meaning of each argument in one line, by name with its form, from a docstring's section on arguments."""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.cleandoc(docstring), re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^ {4}(\S.*?)(?=^ {4}\S|\Z)", section[1] if section else "", re.MULTILINE | re.DOTALL)
    named = (" ".join(entry.split()).partition(": ") for entry in entries)
    return {name: doc for name, _, doc in named}


def _docstring(own: str, fields: Mapping[str, RequestField], names: Iterable[str]) -> str:
    """A function's docstring, whose last section is that on arguments, with all arguments by ``names`` in it."""
    text = inspect.cleandoc(own)
    docs = argument_docs(text)
    lines = [text.partition("\n\nArgs:\n")[0], "", "Args:"]
    for name in names:
        entry = _document(fields[name]) if name in fields else f"{name}: {docs[name]}"
        lines += textwrap.wrap(entry, 110, initial_indent=" " * 4, subsequent_indent=" " * 8)
    return "\n".join([*lines, ""])


def _document(field: RequestField) -> str:
    """The text on an argument, with the form of its values where they have one of their own."""
    option = field.option
    doc = re.sub(r"--([a-z-]+)", lambda match: match[1].replace("-", "_"), option.doc)
    none = f" None is {option.none}." if option.none not in ("", "none") and field.default is None else ""
    unit = f" A number is in {option.unit}; a text has a unit." if option.unit not in ("", TOKEN) else ""
    return f"{argument_name(field)}{_form(field)}: {doc}{none}{unit}"


def _form(field: RequestField) -> str:
    """The form of an argument's values behind its name, such as `` (ROWSxCOLS)``; empty where it says no more."""
    return f" ({field.option.metavar})" if field.option.metavar and not field.option.metavar.isupper() else ""
