"""Argument checks for functions of the Python API.

`checks_arguments` checks a function's arguments against their annotations. Arguments that are
options of a request class are left to `read_request`, which converts them like the command line. An
argument is named after its option, with underscores: ``--new-tokens`` becomes ``new_tokens``.
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
"""Descriptions of one value and of several values of each type, for error messages."""
_ACCEPTED: Final[dict[Any, tuple[Any, Callable[[Any], Any]]]] = {
    int: (Integral, int),
    float: (Real, float),
    str: ((str, os.PathLike), os.fspath),
}
"""Classes of values accepted for a type, and the function that converts values to the type."""


def checks_arguments(request: type | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that checks the arguments of a function against its annotations.

    Arguments are converted to the annotated types. The decorated function raises BadInput if an
    argument has the wrong type, and TypeError if the number or names of arguments are wrong.

    Args:
        request: Class of a request whose options are also parameters of the function. These
            parameters are not checked, because the function passes them to `read_request`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that checks its arguments before it calls ``function``."""
        signature = inspect.signature(function)
        options = set() if request is None else {argument_name(field) for field in options_of(request).values()}

        @wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            """Convert the arguments to the annotated types and call the decorated function."""
            hints = parameter_types(function)
            values = _bind(function.__name__, signature, arguments, keywords)
            checked = {n: value if n in options else checked_value(n, hints[n], value) for n, value in values.items()}
            bound = BoundArguments(signature, checked)
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def read_request(request: type[R], arguments: Mapping[str, Any]) -> R:
    """Create a request from the arguments of a function that has one parameter per option.

    Args:
        request: Request class.
        arguments: Arguments by name, such as the function's ``locals()``. They must contain every
            option of the request. Other arguments are ignored.

    Raises:
        BadInput: A value has the wrong type, or is a string that cannot be converted.
    """
    kind: type = request
    fields = options_of(kind)
    return make_request(
        request, **{n: argument_value(field, arguments[argument_name(field)]) for n, field in fields.items()}
    )


def parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotated types of a function's parameters, keyed by parameter name.

    The type of a parameter such as ``*files: Path`` is ``tuple[Path, ...]``. The return annotation
    is not evaluated, because its names are imported for type checkers only.
    """
    parameters = inspect.signature(function).parameters.values()
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    hints = get_type_hints(SimpleNamespace(__annotations__=annotations), vars(inspect.getmodule(function)))
    variadic_names = [parameter.name for parameter in parameters if parameter.kind is Parameter.VAR_POSITIONAL]
    return hints | {name: GenericAlias(tuple, (hints[name], ...)) for name in variadic_names}


def checked_value(name: str, hint: Any, value: Any, form: str = "") -> Any:
    """Convert the value of an argument to the annotated type.

    Args:
        name: Name of the argument, for the error message.
        hint: Type of the argument, such as ``int | None``.
        value: Value that the caller passed.
        form: Description of valid values that is appended to the error message, such as
            `` (ROWSxCOLS)``.

    Raises:
        BadInput: The value has the wrong type.
    """
    try:
        return value_as(hint, value)
    except TypeError as error:
        raise BadInput(f"{name}={value!r}: give {' or '.join(_kinds(hint))}{form}") from error


def argument_name(field: RequestField) -> str:
    """Return the name of the Python argument for an option: ``new_tokens`` for ``--new-tokens``."""
    return field.name if field.option.positional else field.flag.removeprefix("--").replace("-", "_")


def argument_value(field: RequestField, value: Any) -> Any:
    """Convert a value that a Python caller passed for an option to the option's type.

    Options of any type accept strings, which are converted as on the command line. For example,
    ``wafers="auto"`` and ``link_latency="500ns,5us"`` are allowed.

    Args:
        field: Field of the option.
        value: Value that the caller passed.

    Raises:
        BadInput: The value has the wrong type, or is a string that cannot be converted.
    """
    if isinstance(value, str) and field.is_text:
        return field.value((value,) if field.option.repeats else value)
    return field.spelled(checked_value(argument_name(field), field.hint, value, _form(field)))


def _bind(function: str, signature: Signature, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, keyed by parameter name.

    Args:
        function: Name of the function, for messages.
        signature: Signature of the function.
        arguments: Positional arguments of the call.
        keywords: Keyword arguments of the call.

    Raises:
        TypeError: The arguments do not match the function's signature, as in any Python call.
    """
    for name in keywords:
        if name not in signature.parameters:
            raise TypeError(str(UnknownName("argument", name, signature.parameters, place=f"wse.{function}")))
    try:
        return dict(signature.bind(*arguments, **keywords).arguments)
    except TypeError as error:
        raise TypeError(f"wse.{function}: {error}") from None


def value_as(hint: Any, value: Any) -> Any:
    """Convert a value to an annotated type. An iterable is converted to a tuple.

    Args:
        hint: The type, such as ``int | None`` or ``tuple[float, ...]``.
        value: Value to convert.

    Raises:
        TypeError: The value has the wrong type.
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
    """Return whether a value is an iterable other than a string, bytes or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _kinds(hint: Any, several: int = 0) -> Iterator[str]:
    """Yield a description of each type of a union for error messages, such as "a list of texts".

    Args:
        hint: Type to describe.
        several: 0 for the singular ("a list of texts"), 1 for the plural ("lists of texts").
    """
    for part in union_parts(hint):
        if get_origin(part) in (tuple, Sequence):
            yield f"{('a list', 'lists')[several]} of {' or '.join(_kinds(get_args(part)[0], 1))}"
        elif get_origin(part) is Mapping:
            yield f"{('a mapping', 'mappings')[several]} of {' or '.join(_kinds(get_args(part)[0], 1))}"
        else:
            yield _KINDS[get_origin(part) or part][several]


def _form(field: RequestField) -> str:
    """Return the form of an option's values for error messages, such as `` (ROWSxCOLS)``.

    The result is empty if the option states no form, or only an upper-case word, such as ``FILE``,
    that adds nothing to the option's name.
    """
    return f" ({field.option.metavar})" if field.option.metavar and not field.option.metavar.isupper() else ""
