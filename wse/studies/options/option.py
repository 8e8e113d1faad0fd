"""Options: the description of request fields, from which command line and Python API are built.

A request is a frozen dataclass whose fields are annotated::

    batch: Annotated[int, Option(doc="Users per pass.", metavar="N")] = 1

The field's name, type, default and `Option` determine the option of the command line with its help
text, the axis of a sweep, and the entry in the reference. The help text is ``doc`` or, if this is
empty, the description of the field under ``Attributes:`` in the docstring of its class. In Python,
the field is a keyword argument of the same name. Modules that define requests import nothing slow,
because ``wse --help`` imports all of them.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from wse.files import path_exists
from wse.hardware.quantity import COUNT, TOKEN, is_time
from wse.known_names import known_name
from wse.option import Option, Panel
from wse.studies.options.amounts import read_amount, read_count

R = TypeVar("R")

_ENTRY: Final = re.compile(r"^ {4}(\w(?:[^:\n]|:(?! ))*): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""Name and description of an argument or attribute in a docstring."""


@dataclass(frozen=True, slots=True)
class OptionsOf:
    """Annotation of a request field whose value is a group of options, such as `GpuOptions`.

    All options of the group become options of the request: the command line and `make_request`
    treat them like fields of the request. The group may itself be a request.

    Attributes:
        without: Names of options of the group to leave out.
    """

    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestField:
    """A command-line option, defined by a field of a request or a parameter of a command.

    Attributes:
        name: Name of the field, with underscores.
        hint: Annotated type, such as ``int | None``.
        type: Type of values other than None, such as ``int``; the first type of a union.
        default: Default value.
        option: Description of the option.
    """

    name: str
    hint: Any
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """Long name of the option, such as ``--new-tokens``."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def is_text(self) -> bool:
        """True if the value must be passed as a string, which the method `value` then converts."""
        return bool(self.option.none or self.option.read or self.type in (int, float))

    def value(self, argument: Any) -> Any:
        """Convert an argument of the command line to the value of the field.

        Args:
            argument: A string; a sequence of strings if the option may be given several times; or a
                value that the command line has already converted.

        Raises:
            BadInput: The string is not a valid value of the option.
        """
        if self.option.repeats:
            return tuple(self._read(self.spelled(text)) for text in argument) if argument else self.default
        argument = self.spelled(argument)
        return self._read(argument) if self.is_text and argument is not None else argument

    def spelled(self, argument: Any) -> Any:
        """Correct the case of an argument, so that ``INT8`` is accepted for ``int8``.

        An argument that matches a known name except for upper and lower case is replaced by this
        name. In a comma-separated list, each name is corrected separately. Other arguments, and
        paths of existing files, are returned unchanged.
        """
        if not isinstance(argument, str) or not self.option.known_values or argument == argument.lower():
            return argument
        values = self.option.known_values
        names = values if isinstance(values, tuple) else tuple(values())
        if "," in argument:
            return ",".join(known_name(part, names) or part for part in argument.split(","))
        return argument if argument in names or path_exists(argument) else known_name(argument, names) or argument

    def _read(self, text: str) -> Any:
        """Convert one text to the value of the field; raise BadInput if that is impossible."""
        if self.option.none and text == self.option.none:
            return None
        if self.option.read is not None:
            return self.option.read(text)
        if self.type is float:
            return read_amount(self.flag, text, self.option.unit)
        if self.type is int:
            return read_count(self.flag, text, self.option.unit or COUNT, none_word=self.option.none)
        return text


def request_field(name: str, hint: Any, default: Any, panel: Panel = "", doc: str = "") -> RequestField | None:
    """Return the option that a field with the annotation ``Annotated[TYPE, Option(...)]`` defines.

    Args:
        name: Name of the field or parameter.
        hint: Annotation of the field or parameter.
        default: Default of the field or parameter.
        panel: Panel of options that state none.
        doc: Help text of options that state none.

    Returns:
        The option, or None if the annotation contains no `Option`.
    """
    option = next((o for o in get_args(hint)[1:] if isinstance(o, Option)), None)
    if get_origin(hint) is not Annotated or option is None:
        return None
    value_type = get_args(hint)[0]
    types = [part for part in union_parts(value_type) if part is not NoneType]
    metavar = option.metavar or _metavar(types[0], option)
    option = replace(option, doc=option.doc or doc, panel=option.panel or panel, metavar=metavar)
    return RequestField(name=name, hint=value_type, type=types[0], default=default, option=option)


def _metavar(value_type: Any, option: Option) -> str:
    """Return the form of a number's value, which follows from its unit, or "" for other types."""
    if option.unit == TOKEN:
        form = "TOKENS"
    elif is_time(option.unit):
        form = "TIME"
    elif value_type is int:
        form = "N"
    else:
        return ""
    return f"{form}|{option.none}" if option.none else form


def union_parts(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union such as ``int | None``.

    If ``hint`` is not a union, it is the only element.
    """
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@cache
def options_of(request: type) -> dict[str, RequestField]:
    """Return all options of a request class, including those of its groups.

    Args:
        request: Dataclass of the request.

    Returns:
        Descriptions of the options in the order of the fields, keyed by the name of the field.
    """
    hints, docs = get_type_hints(request, include_extras=True), attribute_docs(request)
    panel: Panel = getattr(request, "PANEL", "")
    options: dict[str, RequestField] = {}
    for field in dataclasses.fields(request):
        hint = hints[field.name]
        nested = next((o for o in get_args(hint)[1:] if isinstance(o, OptionsOf)), None)
        if nested is not None:
            options |= {n: f for n, f in options_of(get_args(hint)[0]).items() if n not in nested.without}
        else:
            described = request_field(field.name, hint, field.default, panel, docs.get(field.name, ""))
            options |= {} if described is None else {field.name: described}
    return options


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the descriptions of attributes in the docstrings of a class and its base classes.

    Returns:
        The texts of the sections ``Attributes:`` without line breaks, keyed by attribute.
    """
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        docs |= section_docs(base.__doc__, "Attributes")
    return docs


def section_docs(docstring: str | None, section: str) -> dict[str, str]:
    """Return the descriptions in a section of a docstring, such as ``Args:``.

    Returns:
        Texts without line breaks, keyed by the part of an entry before its colon.
    """
    text = f"\n{inspect.cleandoc(docstring or '')}".partition(f"\n{section}:\n")[2].partition("\n\n")[0]
    return {name: " ".join(entry.split()) for name, entry in _ENTRY.findall(text)}


def make_request(request: type[R], **values: Any) -> R:
    """Create a request with the given values of some options, and defaults for all others.

    Args:
        request: Class of the request.
        **values: Values, keyed by field name. An option of a group is given by its own name,
            without the name of the group.
    """
    return replace_options(request(), **values)


def replace_options(request: R, **values: Any) -> R:
    """Return a copy of a request in which some options have other values.

    Args:
        request: Request to copy.
        values: New values, keyed by field name. An option of a group is given by its own name,
            without the name of the group.
    """
    kind: type = type(request)
    direct_values = {name: value for name, value in values.items() if not group_path(kind, name)}
    # Each group is a request of its own and is replaced once, with all of its new values.
    for group in {group_path(kind, name)[0]: None for name in values if name not in direct_values}:
        group_values = {name: value for name, value in values.items() if group_path(kind, name)[:1] == (group,)}
        direct_values[group] = replace_options(getattr(request, group), **group_values)
    return replace(request, **direct_values)  # type: ignore[type-var]


def get_option(request: Any, name: str) -> Any:
    """Return the value of an option of a request, given by the name of its field.

    The field may belong to the request itself or to one of its groups of options.
    """
    kind: type = type(request)
    return reduce(getattr, (*group_path(kind, name), name), request)


@cache
def group_path(request: type, name: str) -> tuple[str, ...]:
    """Return the names of the fields that lead from a request class to an option.

    Each of these fields contains a group of options; the outermost comes first. The result is empty
    if the option is a field of the request itself.

    Args:
        request: Dataclass of the request.
        name: Name of the option's field.

    Raises:
        KeyError: Neither the request nor its groups have such a field.
    """
    hints = get_type_hints(request, include_extras=True)
    if name in hints:
        return ()
    for field, hint in hints.items():
        if any(isinstance(note, OptionsOf) for note in get_args(hint)[1:]):
            with suppress(KeyError):
                return (field, *group_path(get_args(hint)[0], name))
    raise KeyError(name)
