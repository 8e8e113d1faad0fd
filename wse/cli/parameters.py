"""The parameters of commands for typer, made of their options.

A command is a function. Its parameter ``request: RunRequest`` stands for all options of that class; a parameter that is
``Annotated[TYPE, Option(...)]`` is an option of its own. `with_options` gives typer a function that has each of them,
and calls the command with the request and the values that they make.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import Annotated, Any, Final, get_type_hints

import typer

from wse.errors import BadInput
from wse.hardware.quantity import is_time
from wse.request.option import Option, RequestField, options_of, request_field, request_of

REQUEST: Final = "request"
OLD: Final = "old_spelling"
"""The prefix of parameters that read an option's earlier spelling."""

Command = Callable[..., None]


def with_options(command: Command) -> Command:
    """``command`` with a parameter for each of its options, and of those of its request."""
    hints = get_type_hints(command, include_extras=True)
    request = hints.get(REQUEST)
    request_fields = {} if request is None else options_of(request)
    command_fields: dict[str, RequestField] = {}
    signature: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        option = request_field(parameter.name, hints[parameter.name], parameter.default)
        if parameter.name == REQUEST:
            signature += [p for field in request_fields.values() for p in _parameters(field)]
        elif option is not None:
            command_fields[parameter.name] = option
            signature += _parameters(option)
        else:
            signature.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    @functools.wraps(command)
    def call(**parsed: Any) -> None:
        values = {name: _value(field, parsed) for name, field in (request_fields | command_fields).items()}
        arguments = parsed | {name: values[name] for name in command_fields}
        if request is not None:
            arguments[REQUEST] = request_of(request, {name: values[name] for name in request_fields})
        command(**arguments)

    call.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in signature}
    return call


def _value(field: RequestField, parsed: dict[str, Any]) -> Any:
    """The value of an option, taken out of ``parsed`` by its name or by an earlier spelling.

    Raises:
        BadInput: it is given by both, or the text is none that the option takes.
    """
    by_spelling = {field.flag: parsed.pop(field.name)}
    by_spelling |= {old: parsed.pop(name) for old, name in zip(field.option.old, _old_names(field), strict=True)}
    spellings = [spelling for spelling, value in by_spelling.items() if value is not None] or [field.flag]
    if len(spellings) > 1:
        message = f"{' and '.join(spellings)}: two spellings of one option; keep {field.flag}"
        raise BadInput(message)
    return field.value(by_spelling[spellings[0]])


def _parameters(field: RequestField) -> Iterable[Parameter]:
    """The parameter of an option, and one for each of its earlier spellings, which help does not show."""
    option = field.option
    required = option.required or field.default is Parameter.empty
    default = Parameter.empty if required else _shown_default(field)
    type_ = _typer_type(field)
    yield _parameter(field.name, type_ | None if default is None else type_, default, _info(field))
    for name, old in zip(_old_names(field), option.old, strict=True):
        yield _parameter(name, type_ | None, None, typer.Option(old, metavar=option.metavar or None, hidden=True))


def _parameter(name: str, type_: Any, default: Any, info: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, info])


def _old_names(field: RequestField) -> list[str]:
    return [f"{OLD}_{at}_of_{field.name}" for at in range(len(field.option.old))]


def _typer_type(field: RequestField) -> Any:
    if field.option.repeats:
        return list[str]
    return str if field.is_text else field.type


def _shown_default(field: RequestField) -> Any:
    """A field's default as the command line has it: the word for None, where there is one."""
    if field.default is None or field.option.repeats:
        return field.option.none or None
    unit = field.option.unit if is_time(field.option.unit) else ""
    return f"{field.default:g}{unit}" if field.type is float else str(field.default) if field.is_text else field.default


def _info(field: RequestField) -> Any:
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
    """The completer of an option's value: of its known names, or of the words of its metavar."""
    words = tuple(word for word in option.metavar.split("|") if word.islower()) if "|" in option.metavar else ()
    choices = option.known_values or words
    if not choices:
        return None

    def complete(incomplete: str) -> list[str]:
        names = choices if isinstance(choices, tuple) else choices()
        return [name for name in names if name.startswith(incomplete)]

    return complete
