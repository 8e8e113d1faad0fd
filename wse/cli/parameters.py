"""The parameters of commands for typer, made of the options of request classes.

A command is a function whose parameter ``request: RunRequest`` stands for all options of that class:
`with_options` gives typer a function that has each of them, and calls the command with the request that they make.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, get_type_hints

import typer

from wse.request.option import Option, RequestField, options_of

OLD: Final = "_old_spelling_"
"""What the names of parameters begin with that read an option's earlier spelling."""

Command = Callable[..., None]


def with_options(command: Command) -> Command:
    """``command`` with the options of a request class in place of its parameter ``request``, if it has one."""
    hints = get_type_hints(command, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in inspect.signature(command).parameters.values()]
    request = hints.get("request")
    if request is None:
        return command
    fields = options_of(request)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        values = {}
        for name, field in fields.items():
            old = next((v for v in map(given.pop, _old_names(field)) if v is not None), None)
            current = given.pop(name)
            values[name] = field.value(current if old is None else old)
        command(request=request(**values), **given)

    made = [p for field in fields.values() for p in _parameters(field)]
    others = [p for p in parameters if p.name != "request"]
    signature = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*made, *others)]
    call.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in signature}
    return call


def _parameters(field: RequestField) -> Iterable[inspect.Parameter]:
    """The parameter of an option, and one for each of its earlier spellings, which help does not show."""
    option = field.option
    default = inspect.Parameter.empty if option.required else _shown_default(field)
    yield _parameter(field.name, _typer_type(field), default, _info(field))
    for name, old in zip(_old_names(field), option.old, strict=True):
        hidden = typer.Option(old, metavar=option.metavar or None, hidden=True)
        yield _parameter(name, _typer_type(field) | None, None, hidden)


def _parameter(name: str, type_: Any, default: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, info])


def _old_names(field: RequestField) -> list[str]:
    return [f"{OLD}{field.name}_{at}" for at in range(len(field.option.old))]


def _typer_type(field: RequestField) -> Any:
    if field.option.repeats:
        return list[str] | None
    type_ = str if field.is_text else field.type
    return type_ | None if _shown_default(field) is None else type_


def _shown_default(field: RequestField) -> Any:
    """A field's default as the command line has it: the word for None, where there is one."""
    if field.option.none and field.default is None:
        return field.option.none
    return str(field.default) if field.is_text and field.default is not None else field.default


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
    return typer.Option(*names, rich_help_panel=option.panel, **common)


def _completer(option: Option) -> Callable[[str], list[str]] | None:
    """What completes an option's value: its known names, or the words of its metavar."""
    words = [word for word in option.metavar.split("|") if word.islower()] if "|" in option.metavar else []
    known = option.known or (lambda: words)
    if option.known is None and not words:
        return None

    def complete(incomplete: str) -> list[str]:
        return [name for name in known() if name.startswith(incomplete)]

    return complete
