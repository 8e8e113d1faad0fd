"""Patterns of one line by name: reduces and what is made of them, other collectives, and those of a user's own file.

Each reduce into an end, ``chain`` say, has four names: ``chain``; ``chain_both_sides``, from both ends into the middle;
``chain_multicast``, an all-reduce that sends the sum to all; ``chain_both_sides_multicast``. ``NAME@4`` is the pattern
with that number instead of the one that its authors choose: groups of a K-tree, PEs of a group in two phases, levels
of a searched tree. ``FILE.py:NAME`` is a function of (length, lines, arrival) or a Pattern in that file.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from wse.errors import BadInput, UnknownName, WseError
from wse.known_names import known_name
from wse.plugins import PATTERNS, fault_in_file, names_file_object, object_of_file, refuse_file_alone, with_plugins
from wse_mappings.patterns.both_sides import both_sides
from wse_mappings.patterns.catalogue import BUNDLED_PATTERNS
from wse_mappings.patterns.pattern import LineCollective, LineReduce, Pattern, Reduce
from wse_mappings.patterns.reduce_multicast import reduce_multicast
from wse_mappings.schedule import Arrival, LineSchedule

NUMBER = "@"
ARGUMENTS = "(length, lines, arrival)"
REMEDY = f"give a function of {ARGUMENTS} that returns a LineSchedule, or a Pattern (docs/adding/pattern.md)"


@cache
def patterns() -> Mapping[str, Pattern]:
    """Patterns by name, the bundled ones first.

    Raises:
        BadInput: a package brings one that cannot be used.
    """
    return with_plugins(PATTERNS, BUNDLED_PATTERNS, _names)


@cache
def line_reduces() -> Mapping[str, LineReduce]:
    """Return the reduces of a line into its end, by the names of their patterns; errors as of `patterns`."""
    return {name: pattern.reduce for name, pattern in patterns().items() if pattern.reduce is not None}


def _names(thing: Any) -> tuple[str]:
    if not isinstance(thing, Pattern):
        message = f"a {type(thing).__name__} is no wse_mappings.patterns.pattern.Pattern"
        raise TypeError(message)
    return (thing.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPattern:
    """A pattern of one line as it was named.

    Attributes:
        name: The name.
        make: From PEs, words of each and cycles of a level of depth to the pattern.
        form: Its collective and algorithm in `wse.backends.fabric.line.closed_forms`; None where it has no closed form
            there.
        reduce: The reduce that it is on its own, of a file, which has closed forms that no table lists.
    """

    name: str
    make: Callable[[int, int, int], LineSchedule]
    form: tuple[str, str] | None = None
    reduce: LineReduce | None = None

    def of_words(self, words: int, level_cycles: int) -> Callable[[int], LineSchedule]:
        """The function from PEs to the pattern for some words: the same object for the same ones, as far as kept."""
        return _of_words(self.make, words, level_cycles)


@lru_cache(maxsize=1024)
def _of_words(
    make: Callable[[int, int, int], LineSchedule], words: int, level_cycles: int
) -> Callable[[int], LineSchedule]:
    return lambda length: make(length, words, level_cycles)


def kept_pattern(name: str) -> NamedPattern:
    """The pattern of a name as `named_pattern` makes it: one object as long as the file that it may name is the same.

    Errors as of `named_pattern`.
    """
    path = name.partition(NUMBER)[0]
    thing = object_of_file(path) if names_file_object(path) else None
    if name not in _kept or _kept[name][0] is not thing:
        _kept[name] = thing, named_pattern(name)
    return _kept[name][1]


_kept: dict[str, tuple[Any, NamedPattern]] = {}
"""By name: the object in the user's file (None for other names), and the pattern made of it."""


def known_line_patterns() -> list[str]:
    """Return the names of the patterns that come with wse, and of those of packages."""
    return [*_reduces(), *_collectives()]


def named_pattern(named: str | Callable[..., Any]) -> NamedPattern:
    """Return the pattern of a name, of ``NAME@NUMBER``, of ``FILE.py:NAME``, or that a function makes.

    Raises:
        UnknownName: there is none of that name.
        BadInput: the number is none that it takes; a file or package brings what is no pattern.
    """
    if not isinstance(named, str):
        name = getattr(named, "__name__", type(named).__name__)
        return _of_object(name, None, named, Path(inspect.getsourcefile(named) or name), name)
    name, _, number_text = named.partition(NUMBER)
    number = None
    if NUMBER in named:
        number = int(number_text) if re.fullmatch("[0-9]{1,9}", number_text) else 0
        if number < 1:
            message = f"pattern {named!r}: behind {NUMBER} give a whole number of at least 1"
            raise BadInput(message)
    if names_file_object(name):
        path, _, own_name = name.rpartition(":")
        return _of_object(named, number, object_of_file(name), Path(path), own_name)
    name = known_name(name, known_line_patterns()) or name
    if name in _reduces():
        base, finish = _reduces()[name]
        form = (("all_reduce" if "_multicast" in name[len(base) :] else "reduce"), base)
        plain = "_both_sides" not in name[len(base) :] and number is None
        return NamedPattern(
            name=named, make=_of_reduce(named, line_reduces()[base], number, finish), form=form if plain else None
        )
    if name in _collectives():
        return _of_collective(named, number, _collectives()[name])
    refuse_file_alone(name)
    raise UnknownName("pattern", name, known_line_patterns())


Finish = Callable[[int, Reduce], LineSchedule]
"""From PEs and a reduce to the pattern of one line that is made of it."""


def _into_end(length: int, reduce: Reduce) -> LineSchedule:
    return reduce(length, 1, Arrival.ADD)


def _into_middle(length: int, reduce: Reduce) -> LineSchedule:
    return both_sides(length, 1, Arrival.ADD, reduce)


_FINISHES: dict[str, Finish] = {
    "": _into_end,
    "_both_sides": _into_middle,
    "_multicast": lambda length, reduce: reduce_multicast(_into_end(length, reduce), 0),
    "_both_sides_multicast": lambda length, reduce: reduce_multicast(_into_middle(length, reduce), length // 2),
}
"""Functions that make a collective of a reduce, by the suffix of its name."""


def _reduces() -> dict[str, tuple[str, Finish]]:
    """Return the reduce and what is made of it, by name."""
    return {base + end: (base, finish) for base in line_reduces() for end, finish in _FINISHES.items()}


def _collectives() -> dict[str, LineCollective]:
    return {name: one for pattern in patterns().values() for name, one in pattern.collectives.items()}


def _of_reduce(
    named: str, reduce: LineReduce, number: int | None, finish: Finish
) -> Callable[[int, int, int], LineSchedule]:
    if number is not None and reduce.authors_number is None:
        raise _without_number(named)

    def make(length: int, words: int, level_cycles: int) -> LineSchedule:
        chosen = number or (reduce.authors_number(length, words, level_cycles) if reduce.authors_number else 1)
        return finish(length, reduce.make(chosen))

    return make


def _of_collective(named: str, number: int | None, collective: LineCollective) -> NamedPattern:
    if number is not None and not collective.takes_number:
        raise _without_number(named)
    form = collective.form if number is None else None
    return NamedPattern(name=named, make=lambda length, _words, _level: collective.make(length, number), form=form)


def _without_number(named: str) -> BadInput:
    message = f"pattern {named!r}: has no number to choose; leave out what is behind {named.partition(NUMBER)[0]}"
    return BadInput(message)


def _of_object(named: str, number: int | None, thing: Any, path: Path, own_name: str) -> NamedPattern:
    """Return the pattern that an object of a user's own is."""
    if isinstance(thing, Pattern):
        chosen = _of_pattern(named, number, thing)
    elif callable(thing):
        try:
            inspect.signature(thing).bind(2, 1, Arrival.ADD)
        except (TypeError, ValueError) as error:
            message = f"{path}: {own_name}: is called with {ARGUMENTS}, which it does not take ({error}); {REMEDY}"
            raise BadInput(message) from error
        if number is not None:
            raise _without_number(named)
        chosen = NamedPattern(name=named, make=lambda length, _words, _level: thing(length, 1, Arrival.ADD))
    else:
        message = f"{path}: {own_name}: is of type {type(thing).__name__}, and no pattern; {REMEDY}"
        raise BadInput(message)
    return NamedPattern(
        name=named,
        make=_guarded(chosen.make, path, own_name),
        form=None,
        reduce=chosen.reduce if number is None else None,
    )


def _of_pattern(named: str, number: int | None, pattern: Pattern) -> NamedPattern:
    if pattern.reduce is not None:
        return NamedPattern(
            name=named, make=_of_reduce(named, pattern.reduce, number, _into_end), reduce=pattern.reduce
        )
    for collective in pattern.collectives.values():
        return _of_collective(named, number, collective)
    message = f"{named}: this Pattern has neither a reduce nor a collective; {REMEDY}"
    raise BadInput(message)


def _guarded(
    make: Callable[[int, int, int], Any], path: Path, own_name: str
) -> Callable[[int, int, int], LineSchedule]:
    """``make`` of a user's own, whose errors and results of another type become one line."""

    def guarded(length: int, words: int, level_cycles: int) -> LineSchedule:
        try:
            schedule = make(length, words, level_cycles)
        except WseError:
            raise
        except Exception as error:
            message = f"{own_name} on {length} PEs: {fault_in_file(error, path)}"
            raise BadInput(message) from error
        if not isinstance(schedule, LineSchedule):
            message = f"{path}: {own_name}: returned an object of type {type(schedule).__name__}; {REMEDY}"
            raise BadInput(message)
        if schedule.length != length:
            message = f"{path}: {own_name}: made a pattern of {schedule.length} PEs where {length} were asked for"
            raise BadInput(message)
        return schedule

    return guarded
