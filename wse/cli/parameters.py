"""Command parameters for typer, derived from the options of the commands.

A command is a function. A parameter ``request: RunRequest`` represents all options of that class.
A parameter ``Annotated[TYPE, Option(...)]`` is an option by itself. Its help text is the description
under ``Args:`` in the docstring of the command, unless the `Option` has one. ``with_options`` creates
a function for typer that has each option as a parameter. It builds the request and calls the command.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import is_dataclass
from inspect import Parameter
from typing import Annotated, Any, Final, get_type_hints

import typer

from wse.cache.store import without_cache
from wse.hardware.quantity import is_time
from wse.option import Option
from wse.studies.options.option import RequestField, make_request, options_of, request_field, section_docs

Command = Callable[..., None]

NO_CACHE: Final = RequestField(
    name="no_cache",
    hint=bool,
    type=bool,
    default=False,
    option=Option(doc="Neither read nor write the cache of earlier answers (wse cache).", panel="Output"),
)
"""The option ``--no-cache``, which all commands that search for layouts share."""


def with_options(command: Command, *, searches: bool = False) -> Command:
    """Return a function for typer that has a separate parameter for each option of a command.

    Args:
        command: Function of the command. A parameter whose type is a dataclass, such as
            ``request: RunRequest``, represents all options of that class.
        searches: Whether the command searches for layouts. It then has the option ``--no-cache``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: options_of(hint) for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    help_text, docs = str(command.__doc__).partition("\n    Args:\n")[0], section_docs(command.__doc__, "Args")
    command_fields: dict[str, RequestField] = {}
    signature: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        option = request_field(
            parameter.name, hints[parameter.name], parameter.default, doc=docs.get(parameter.name, "")
        )
        if parameter.name in groups:
            signature += map(_parameter, groups[parameter.name].values())
        elif option is not None:
            command_fields[parameter.name] = option
            signature.append(_parameter(option))
        else:
            signature.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    if searches:
        signature.append(_parameter(NO_CACHE))

    @functools.wraps(command)
    def call(**parsed: Any) -> None:
        """Run the command with the options that typer has parsed.

        The options of a class are converted and combined into one object. Other options are
        converted and passed to the command as separate arguments.
        """
        uses_cache = not parsed.pop(NO_CACHE.name, False)
        arguments = {}
        for group, fields in groups.items():
            values = {name: field.value(parsed.pop(name)) for name, field in fields.items()}
            arguments[group] = make_request(hints[group], **values)
        arguments |= {name: field.value(parsed.pop(name)) for name, field in command_fields.items()}
        with nullcontext() if uses_cache else without_cache():
            command(**parsed, **arguments)

    call.__doc__ = help_text
    call.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in signature}
    return call


def _parameter(field: RequestField) -> Parameter:
    """Convert an option to a function parameter, from which typer reads type, default and help."""
    required = field.option.required or field.default is Parameter.empty
    default = Parameter.empty if required else _shown_default(field)
    type_ = _typer_type(field)
    annotation: Any = Annotated[type_ | None if default is None else type_, _info(field)]
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _typer_type(field: RequestField) -> Any:
    """Return the Python type that typer should convert an option to."""
    if field.option.repeats:
        return list[str]
    return str if field.is_text else field.type


def _shown_default(field: RequestField) -> Any:
    """Return the default of an option as a user would write it on the command line.

    If the default is None, the result is the word that the user writes for None, or None if the
    option has no such word.
    """
    if field.default is None or field.option.repeats:
        return field.option.none or None
    unit = field.option.unit if is_time(field.option.unit) else ""
    return f"{field.default:g}{unit}" if field.type is float else str(field.default) if field.is_text else field.default


def _info(field: RequestField) -> Any:
    """Return typer's description of an option, which is a positional argument or an option."""
    option = field.option
    common: dict[str, Any] = {
        "help": option.doc,
        "metavar": option.metavar or None,
        "autocompletion": _completer(option),
    }
    if option.positional:
        return typer.Argument(**common)
    names = [name for name in (option.short, field.flag) if name]
    return typer.Option(*names, rich_help_panel=option.panel or None, **common)


def _completer(option: Option) -> Callable[[str], list[str]] | None:
    """Return a function that completes the values of an option in a shell, or None.

    The possible values are the known values of the option, or the words of its placeholder in the
    help.
    """
    words = tuple(word for word in option.metavar.split("|") if word.islower()) if "|" in option.metavar else ()
    choices = option.known_values or words
    if not choices:
        return None

    def complete(incomplete: str) -> list[str]:
        """Return the possible values that start with the text typed so far."""
        names = choices if isinstance(choices, tuple) else choices()
        return [name for name in names if name.startswith(incomplete)]

    return complete
