"""Checks of what a function of the Python API is called with.

`checks_arguments` checks the arguments of a function by their annotations. Arguments that are options of a request
class are left to `read_request`, which reads them as the command line does. An argument has the name of its option with
underscores: ``--new-tokens`` is ``new_tokens``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import BoundArguments, Parameter, Signature
from numbers import Integral, Real
from pathlib import Path
from types import GenericAlias, NoneType, SimpleNamespace
from typing import Any, Final, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from wse.errors import BadInput, UnknownName
from wse.studies.options.option import RequestField, make_request, options_of, union_parts

P = ParamSpec("P")
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


def checks_arguments(request: type | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decorator that checks the arguments of a function, and converts them to the types of its parameters.

    A call then raises BadInput for an argument of a wrong type. A wrong number or name of arguments stays a TypeError.

    Args:
        request: The request class whose options the function takes, for `read_request`; they are not checked here.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        options = set() if request is None else {argument_name(field) for field in options_of(request).values()}

        @wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            hints = parameter_types(function)
            values = _bind(function.__name__, signature, arguments, keywords)
            checked = {n: value if n in options else checked_value(n, hints[n], value) for n, value in values.items()}
            bound = BoundArguments(signature, checked)
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def read_request(request: type[R], arguments: Mapping[str, Any]) -> R:
    """Make a request of the arguments of a function that has a parameter for each of its options.

    Raises:
        BadInput: A value has a wrong type, or is a text that cannot be read.
    """
    kind: type = request
    fields = options_of(kind)
    return make_request(
        request, **{n: argument_value(field, arguments[argument_name(field)]) for n, field in fields.items()}
    )


def parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters; a tuple of them for a parameter such as ``*files``.

    Results, which nobody checks, are imported by type checkers alone, so their names are unknown here.
    """
    parameters = inspect.signature(function).parameters.values()
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    hints = get_type_hints(SimpleNamespace(__annotations__=annotations), vars(inspect.getmodule(function)))
    several = [parameter.name for parameter in parameters if parameter.kind is Parameter.VAR_POSITIONAL]
    return hints | {name: GenericAlias(tuple, (hints[name], ...)) for name in several}


def checked_value(name: str, hint: Any, value: Any, form: str = "") -> Any:
    """Return the value of an argument as its type, with ``form`` behind the remedy.

    Raises:
        BadInput: the value is of another type.
    """
    try:
        return value_as(hint, value)
    except TypeError as error:
        message = f"{name}={value!r}: give {' or '.join(_kinds(hint))}{form}"
        raise BadInput(message) from error


def argument_name(field: RequestField) -> str:
    """Return the name of the argument that an option is."""
    return field.name if field.option.positional else field.flag.removeprefix("--").replace("-", "_")


def argument_value(field: RequestField, value: Any) -> Any:
    """Return the field's value of what was given from Python.

    A text for what is no text is read as the command line reads it: ``wafers="auto"``, ``link_latency="500ns,5us"``.

    Raises:
        BadInput: the value is of another type, or a text that cannot be read.
    """
    if isinstance(value, str) and field.is_text:
        return field.value((value,) if field.option.repeats else value)
    return field.spelled(checked_value(argument_name(field), field.hint, value, _form(field)))


def _bind(function: str, signature: Signature, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, by name. Raises TypeError, as Python does, where they do not fit the function."""
    for name in keywords:
        if name not in signature.parameters:
            raise TypeError(str(UnknownName("argument", name, signature.parameters, where=f"wse.{function}")))
    try:
        return dict(signature.bind(*arguments, **keywords).arguments)
    except TypeError as error:
        message = f"wse.{function}: {error}"
        raise TypeError(message) from None


def value_as(hint: Any, value: Any) -> Any:
    """Return a value as a type that an argument has, any iterable as a tuple.

    Raises TypeError where it is of another type.
    """
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
    """Return whether an argument gives several values, in any iterable but a text or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _kinds(hint: Any, several: int = 0) -> Iterator[str]:
    """Yield the kinds of value that a type stands for, in words: of one value with 0, of several with 1."""
    for part in union_parts(hint):
        if get_origin(part) in (tuple, Sequence):
            yield f"{('a list', 'lists')[several]} of {' or '.join(_kinds(get_args(part)[0], 1))}"
        elif get_origin(part) is Mapping:
            yield f"{('a mapping', 'mappings')[several]} of {' or '.join(_kinds(get_args(part)[0], 1))}"
        else:
            yield _KINDS[get_origin(part) or part][several]


def _form(field: RequestField) -> str:
    """Return the form of an argument's values behind its name, such as `` (ROWSxCOLS)``.

    Empty where it says no more.
    """
    return f" ({field.option.metavar})" if field.option.metavar and not field.option.metavar.isupper() else ""
