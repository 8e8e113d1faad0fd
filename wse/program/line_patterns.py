"""Communication patterns of one line of PEs, by name.

The names cover:

- Reduces and collectives that are made from them. Each reduce into an end of the line, such as
  ``chain``, has four names: ``chain``; ``chain_both_sides``, from both ends into the middle;
  ``chain_multicast``, an all-reduce that sends the sum to all PEs; and
  ``chain_both_sides_multicast``.
- Other collectives.
- Patterns of a user: ``FILE.py:NAME`` is a function of (length, lines, arrival) or a Pattern in
  that file.

``NAME@4`` overrides the number that the authors of a pattern choose. Depending on the pattern, it
is the number of groups of a K-tree, of PEs of a group in two phases, or of levels of a searched
tree.
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
from wse.plugins import (
    PATTERNS,
    fault_in_file,
    names_file_object,
    object_of_file,
    refuse_file_alone,
    with_plugins,
    wrong_type,
)
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
    """Return all communication patterns by name, with the bundled ones first.

    Raises:
        BadInput: An installed package provides a pattern that cannot be used.
    """
    return with_plugins(PATTERNS, BUNDLED_PATTERNS, _names)


@cache
def line_reduces() -> Mapping[str, LineReduce]:
    """Return the algorithms that reduce a line of PEs into its end, by the name of their pattern.

    Raises:
        BadInput: An installed package provides a pattern that cannot be used.
    """
    return {name: pattern.reduce for name, pattern in patterns().items() if pattern.reduce is not None}


def _names(candidate: Any) -> tuple[str]:
    """Return the name of a pattern that an installed package provides.

    Raises:
        TypeError: The object is not a Pattern.
    """
    if not isinstance(candidate, Pattern):
        raise wrong_type(candidate, "wse_mappings.patterns.pattern.Pattern")
    return (candidate.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPattern:
    """A communication pattern of one line of PEs that was requested by name, or as a function.

    Attributes:
        name: The requested name.
        make: Function that makes the pattern for a number of PEs, a number of words per PE, and the
            cycles per level of depth.
        form: Collective and algorithm of its closed form in
            `wse.backends.fabric.line.closed_forms`; None if it has none there.
        reduce: The reduce of a pattern from a user's file, which may have closed forms of its own;
            else None.
    """

    name: str
    make: Callable[[int, int, int], LineSchedule]
    form: tuple[str, str] | None = None
    reduce: LineReduce | None = None

    def for_words(self, words: int, level_cycles: int) -> Callable[[int], LineSchedule]:
        """Return a function from the number of PEs to the pattern, for a given number of words.

        Calls with the same arguments return the same cached object.

        Args:
            words: 32-bit words of each PE.
            level_cycles: Cycles per level of depth, on which some patterns depend.
        """
        return _for_words(self.make, words, level_cycles)


@lru_cache(maxsize=1024)
def _for_words(
    make: Callable[[int, int, int], LineSchedule], words: int, level_cycles: int
) -> Callable[[int], LineSchedule]:
    """Return ``make`` as a function of the number of PEs only; the other arguments are fixed."""
    return lambda length: make(length, words, level_cycles)


def cached_pattern(name: str) -> NamedPattern:
    """Return the pattern with a name from a cache; the name is interpreted by `named_pattern`.

    If the name refers to a user's file, the cached pattern is used until the file changes. Errors
    are those of `named_pattern`.
    """
    path = name.partition(NUMBER)[0]
    file_object = object_of_file(path) if names_file_object(path) else None
    if name not in _cached_patterns or _cached_patterns[name][0] is not file_object:
        _cached_patterns[name] = file_object, named_pattern(name)
    return _cached_patterns[name][1]


_cached_patterns: dict[str, tuple[Any, NamedPattern]] = {}
"""Cached patterns by name, each with the object in the user's file that it was made from.

The object is None for other patterns.
"""


def known_line_patterns() -> list[str]:
    """Return the names of all patterns of a line, including those of installed packages."""
    return [*_reduces(), *_collectives()]


def named_pattern(requested: str | Callable[..., Any]) -> NamedPattern:
    """Return the communication pattern that a name or a function stands for.

    1. A function makes a pattern without further look-up.
    2. A number after ``@`` is separated from the name.
    3. ``FILE.py:NAME`` is an object in a user's file.
    4. Any other name is that of a reduce, of a collective based on a reduce, or of another
       collective.

    Args:
        requested: ``NAME``, ``NAME@NUMBER``, ``FILE.py:NAME``, or a function that makes a pattern.

    Raises:
        UnknownName: No pattern has this name.
        BadInput: The pattern does not accept the number; or a file or a package contains something
            that is not a pattern.
    """
    if not isinstance(requested, str):  # 1
        name = getattr(requested, "__name__", type(requested).__name__)
        return _pattern_of_object(name, None, requested, Path(inspect.getsourcefile(requested) or name), name)
    name, _, number_text = requested.partition(NUMBER)
    number = None
    if NUMBER in requested:  # 2
        number = int(number_text) if re.fullmatch("[0-9]{1,9}", number_text) else 0
        if number < 1:
            message = f"pattern {requested!r}: after {NUMBER} give a whole number of at least 1"
            raise BadInput(message)
    if names_file_object(name):  # 3
        path, _, own_name = name.rpartition(":")
        return _pattern_of_object(requested, number, object_of_file(name), Path(path), own_name)
    name = known_name(name, known_line_patterns()) or name  # 4
    if name in _reduces():
        base, finish = _reduces()[name]
        # A closed form exists for the authors' own number and for a reduce into an end only.
        form = (("all_reduce" if "_multicast" in name[len(base) :] else "reduce"), base)
        has_form = "_both_sides" not in name[len(base) :] and number is None
        return NamedPattern(
            name=requested,
            make=_maker_of_reduce(requested, line_reduces()[base], number, finish),
            form=form if has_form else None,
        )
    if name in _collectives():
        return _pattern_of_collective(requested, number, _collectives()[name])
    refuse_file_alone(name)
    raise UnknownName("pattern", name, known_line_patterns())


Finish = Callable[[int, Reduce], LineSchedule]
"""Function from the number of PEs and a reduce to a pattern of one line based on the reduce."""


def _into_end(length: int, reduce: Reduce) -> LineSchedule:
    """Return the pattern that reduces a line into its first PE."""
    return reduce(length, 1, Arrival.ADD)


def _into_middle(length: int, reduce: Reduce) -> LineSchedule:
    """Return the pattern that reduces a line from both of its ends into its middle."""
    return both_sides(length, 1, Arrival.ADD, reduce)


_FINISHES: dict[str, Finish] = {
    "": _into_end,
    "_both_sides": _into_middle,
    "_multicast": lambda length, reduce: reduce_multicast(_into_end(length, reduce), 0),
    "_both_sides_multicast": lambda length, reduce: reduce_multicast(_into_middle(length, reduce), length // 2),
}
"""Functions that make a collective from a reduce, by the suffix of the collective's name."""


def _reduces() -> dict[str, tuple[str, Finish]]:
    """Return the patterns that are made from a reduce of a line into its end.

    Returns:
        Keys are names of patterns. A value is the name of the reduce, and a function that makes the
        pattern from it, for example by adding a multicast.
    """
    return {base + end: (base, finish) for base in line_reduces() for end, finish in _FINISHES.items()}


def _collectives() -> dict[str, LineCollective]:
    """Return the collectives that are not based on a reduce, with their names as keys."""
    return {name: collective for pattern in patterns().values() for name, collective in pattern.collectives.items()}


def _maker_of_reduce(
    pattern_name: str, reduce: LineReduce, number: int | None, finish: Finish
) -> Callable[[int, int, int], LineSchedule]:
    """Return a function that makes a pattern from a reduce of a line.

    Args:
        pattern_name: Requested name, for error messages.
        reduce: The reduce.
        number: Requested number, such as that of the groups of a K-tree; None for the number that
            the authors of the pattern choose.
        finish: Function that makes the pattern from the reduce.

    Raises:
        BadInput: A number is requested, but the reduce does not depend on a number.
    """
    if number is not None and reduce.authors_number is None:
        raise _without_number(pattern_name)

    def make(length: int, words: int, level_cycles: int) -> LineSchedule:
        """Make the pattern for a line of ``length`` PEs with ``words`` words each."""
        chosen_number = number or (reduce.authors_number(length, words, level_cycles) if reduce.authors_number else 1)
        return finish(length, reduce.make(chosen_number))

    return make


def _pattern_of_collective(pattern_name: str, number: int | None, collective: LineCollective) -> NamedPattern:
    """Return the pattern of a collective that is not based on a reduce.

    Args:
        pattern_name: Requested name.
        number: Requested number after ``@``, or None.
        collective: The collective.

    Raises:
        BadInput: The collective does not accept a number.
    """
    if number is not None and not collective.takes_number:
        raise _without_number(pattern_name)
    form = collective.form if number is None else None
    return NamedPattern(
        name=pattern_name, make=lambda length, _words, _level: collective.make(length, number), form=form
    )


def _without_number(pattern_name: str) -> BadInput:
    """Return the error for a requested name with a number that the pattern does not accept."""
    name = pattern_name.partition(NUMBER)[0]
    message = f"pattern {pattern_name!r}: has no number to choose; give {name!r} without a number"
    return BadInput(message)


def _pattern_of_object(
    pattern_name: str, number: int | None, user_object: Any, path: Path, own_name: str
) -> NamedPattern:
    """Return the pattern that an object in a user's file defines.

    Args:
        pattern_name: Requested name, for error messages.
        number: Requested number after ``@``, or None.
        user_object: A Pattern, or a function of (length, lines, arrival).
        path: File with the object.
        own_name: Name of the object in that file.

    Raises:
        BadInput: The object is neither a Pattern nor such a function, or does not accept the
            number.
    """
    if isinstance(user_object, Pattern):
        pattern = _pattern_of_user_pattern(pattern_name, number, user_object)
    elif callable(user_object):
        try:
            inspect.signature(user_object).bind(2, 1, Arrival.ADD)
        except (TypeError, ValueError) as error:
            message = f"{path}: {own_name}: is called with {ARGUMENTS}, which it does not take ({error}); {REMEDY}"
            raise BadInput(message) from error
        if number is not None:
            raise _without_number(pattern_name)
        pattern = NamedPattern(
            name=pattern_name, make=lambda length, _words, _level: user_object(length, 1, Arrival.ADD)
        )
    else:
        message = f"{path}: {own_name}: is of type {type(user_object).__name__}, not a pattern; {REMEDY}"
        raise BadInput(message)
    return NamedPattern(
        name=pattern_name,
        make=_guarded(pattern.make, path, own_name),
        form=None,
        reduce=pattern.reduce if number is None else None,
    )


def _pattern_of_user_pattern(pattern_name: str, number: int | None, pattern: Pattern) -> NamedPattern:
    """Return the named pattern for a Pattern object from a user's file.

    It is the reduce of the object, or else its first collective.

    Raises:
        BadInput: The object has neither, or does not accept the number.
    """
    if pattern.reduce is not None:
        return NamedPattern(
            name=pattern_name,
            make=_maker_of_reduce(pattern_name, pattern.reduce, number, _into_end),
            reduce=pattern.reduce,
        )
    for collective in pattern.collectives.values():
        return _pattern_of_collective(pattern_name, number, collective)
    message = f"{pattern_name}: this Pattern has neither a reduce nor a collective; {REMEDY}"
    raise BadInput(message)


def _guarded(
    make: Callable[[int, int, int], Any], path: Path, own_name: str
) -> Callable[[int, int, int], LineSchedule]:
    """Wrap a function from a user's file so that its errors become one-line messages.

    Exceptions, and results of a wrong type or length, are raised as BadInput.

    Args:
        make: Function that makes a pattern.
        path: The user's file.
        own_name: Name of the pattern in that file.
    """

    def guarded(length: int, words: int, level_cycles: int) -> LineSchedule:
        """Call ``make`` and check the type and length of its result."""
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
            message = f"{path}: {own_name}: made a pattern of {schedule.length} PEs instead of {length}"
            raise BadInput(message)
        return schedule

    return guarded
