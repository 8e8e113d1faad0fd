"""Option: what a field of a request means to whoever gives it, said once.

A request is a frozen dataclass whose fields are annotated, ``batch: Annotated[int, Option("...", metavar="N")] = 1``.
From the field's name, type, default and `Option` come the option of the command line and its help, the axis of a sweep
and the reference; from Python the field is an argument of the same name. Modules of requests import nothing heavy, for
``wse --help`` reads them all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wse.errors import BadInput
from wse.files import path_exists
from wse.hardware.quantity import COUNT, TOKEN, has_unit, is_time, read_quantity, whole_number
from wse.known_names import known_name

R = TypeVar("R")

Panel = Literal[
    "", "Model", "Wafer and mapping", "GPUs", "Prompt", "Serving", "Sampling", "Drafts", "Trace", "Machines", "Output"
]

_EXAMPLES: Final = {
    "s": "200ms or 0.2s",
    "µs": "5us or 500ns",
    "GB/s": "150GB/s or 2.4TB/s",
    COUNT: "8 or 10k",
    "": "0.8 or 10k",
    TOKEN: "4096 or 128k",
}
"""Examples of values for each unit of an option, and for a number without a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the command line, and the same argument from Python.

    In annotations its functions are named ones: a lambda that is written there does not see its module.

    Attributes:
        doc: What it is, in a line or two.
        panel: Under which heading it stands in help; "Options" where empty.
        metavar: How its value looks, such as ``ROWSxCOLS``; empty for a flag.
        none: The word that stands for None on the command line, such as ``auto``; the option is left out where empty.
        repeats: Whether it may be given several times; the field then holds a tuple of what was given.
        read: Makes the field's value of a text, and raises BadInput; None where the field's type says how.
        unit: The unit of the field's number: "token", of which k is 1,024, or the unit of a measured quantity, such as
            "s". A time needs its unit in a text; a text without one is otherwise in this unit. Empty for other counts,
            rates and shares.
        known_values: The names that can be completed, or a function that gives them; those of ``metavar`` where it
            lists them, as ``refuse|report``.
        short: A spelling of one letter, such as ``-o``.
        positional: Whether it stands without a name before it.
        flag: The option's long name, where the field has another.
        required: Whether the command line needs it even though the field has a default.
    """

    doc: str
    panel: Panel = ""
    metavar: str = ""
    none: str = ""
    repeats: bool = False
    read: Callable[[str], Any] | None = None
    unit: str = ""
    known_values: Callable[[], Iterable[str]] | tuple[str, ...] = ()
    short: str = ""
    flag: str = ""
    positional: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class OptionsOf:
    """Marks a field of a request that is a group of options, or a request itself, whose options are those of the whole.

    Attributes:
        without: Names of options that the whole does not have.
    """

    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestField:
    """A field of a request, or a parameter of a command, that is an option.

    Attributes:
        name: The field's name, with underscores.
        hint: What it may hold, such as ``int | None``.
        type: What it holds where it holds something, such as ``int``; of several types the first.
        default: Its default.
        option: Its description.
        groups: The fields of groups that lead to the field, the outermost first; empty where it is the request's own.
    """

    name: str
    hint: Any
    type: Any
    default: Any
    option: Option
    groups: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option's long name, such as ``--new-tokens``."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def is_text(self) -> bool:
        """True if the command line hands on a text, which `value` reads."""
        return bool(self.option.none or self.option.read or self.type in (int, float))

    def value(self, argument: Any) -> Any:
        """Return the field's value of what was given on the command line.

        Raises:
            BadInput: the text is none that the option takes.
        """
        if self.option.repeats:
            return tuple(self._read(self.spelled(text)) for text in argument) if argument else self.default
        argument = self.spelled(argument)
        return self._read(argument) if self.is_text and argument is not None else argument

    def spelled(self, argument: Any) -> Any:
        """Return an argument whose letters are those of a known name, but for their case, as that name; a path stays.

        Of names with commas between them each is looked at alone.
        """
        if not isinstance(argument, str) or not self.option.known_values or argument == argument.lower():
            return argument
        values = self.option.known_values
        names = values if isinstance(values, tuple) else tuple(values())
        if "," in argument:
            return ",".join(known_name(part, names) or part for part in argument.split(","))
        return argument if argument in names or path_exists(argument) else known_name(argument, names) or argument

    def _read(self, text: str) -> Any:
        if self.option.none and text == self.option.none:
            return None
        if self.option.read is not None:
            return self.option.read(text)
        if self.type is float:
            return read_amount(self.flag, text, self.option.unit)
        if self.type is not int:
            return text
        number = whole_number(text, self.option.unit or COUNT)
        if number is None:
            tokens, examples = " of tokens" * (self.option.unit == TOKEN), _EXAMPLES[self.option.unit or COUNT]
            others = f", or {self.option.none}" if self.option.none else ""
            message = f"{self.flag} {text!r}: give a whole number{tokens}, such as {examples}{others}"
            raise BadInput(message)
        return number


def request_field(name: str, hint: Any, default: Any) -> RequestField | None:
    """Return the option that a field or parameter is by its hint, ``Annotated[TYPE, Option(...)]``.

    None where it is none.
    """
    option = next((o for o in get_args(hint)[1:] if isinstance(o, Option)), None)
    if get_origin(hint) is not Annotated or option is None:
        return None
    inner = get_args(hint)[0]
    types = [part for part in union_parts(inner) if part is not NoneType]
    return RequestField(name=name, hint=inner, type=types[0], default=default, option=option)


def union_parts(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union; the type itself where it is none."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@cache
def options_of(request: type) -> dict[str, RequestField]:
    """Return the options of a request class by field, in the order of its fields."""
    hints = get_type_hints(request, include_extras=True)
    options: dict[str, RequestField] = {}
    for field in dataclasses.fields(request):
        hint = hints[field.name]
        nested = next((o for o in get_args(hint)[1:] if isinstance(o, OptionsOf)), None)
        if nested is not None:
            inner = options_of(get_args(hint)[0])
            options |= {
                n: replace(f, groups=(field.name, *f.groups)) for n, f in inner.items() if n not in nested.without
            }
        elif (described := request_field(field.name, hint, field.default)) is not None:
            options[field.name] = described
    return options


def make_request(request: type[R], **values: Any) -> R:
    """Return the request with some values of its fields and of those of its groups, by name."""
    return replace_options(request(), **values)


def replace_options(request: R, **values: Any) -> R:
    """Return a request with other values of some of its fields and of those of its groups, by name."""
    kind: type = type(request)
    own = {name: value for name, value in values.items() if not group_path(kind, name)}
    for group in {group_path(kind, name)[0]: None for name in values if name not in own}:
        inside = {name: value for name, value in values.items() if group_path(kind, name)[:1] == (group,)}
        own[group] = replace_options(getattr(request, group), **inside)
    return replace(request, **own)  # type: ignore[type-var]


def get_option(request: Any, name: str) -> Any:
    """Return the value of a field of a request or of one of its groups, by name."""
    kind: type = type(request)
    return reduce(getattr, (*group_path(kind, name), name), request)


@cache
def group_path(request: type, name: str) -> tuple[str, ...]:
    """Return the fields of groups that lead to a field of a request, the outermost first; empty for its own fields.

    Raises:
        KeyError: There is no such field.
    """
    hints = get_type_hints(request, include_extras=True)
    if name in hints:
        return ()
    for field, hint in hints.items():
        if any(isinstance(note, OptionsOf) for note in get_args(hint)[1:]):
            with suppress(KeyError):
                return (field, *group_path(get_args(hint)[0], name))
    raise KeyError(name)


def read_amount(flag: str, text: str, unit: str) -> float:
    """Return the number in the text of an option such as ``--ttft 200ms`` or ``--rate 1k``, converted to ``unit``.

    Raises:
        BadInput: The text is no such quantity, or it is a time without a unit. Without this check, ``--ttft 200`` would
            be wrong by a factor of 1,000 for a user who means milliseconds.
    """
    number = read_quantity(text, unit)
    if number is None:
        with_unit = " with its unit" if unit else ""
        message = f"{flag} {text!r}: give a number{with_unit}, such as {_EXAMPLES[unit]}"
        raise BadInput(message)
    if is_time(unit) and not has_unit(text):
        message = f"{flag} {text!r}: give a unit, such as {_EXAMPLES[unit]}"
        raise BadInput(message)
    return float(number)


def check_counts(**counts: int | None) -> None:
    """Raise BadInput for an option, by its long name with underscores, that is given and below 1."""
    for name, value in counts.items():
        if value is not None and value < 1:
            message = f"--{name.replace('_', '-')} {value}: give a number of at least 1"
            raise BadInput(message)
