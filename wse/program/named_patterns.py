"""Communication patterns of a line of PEs, requested by name, from a Python file, or as a function.

A pattern is built from a reduce of a line into its first PE, or it is a collective of another kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput, WseError
from wse.plugins import fault_in_file
from wse_mappings.patterns.pattern import LineCollective, LineReduce, Pattern, Reduce
from wse_mappings.schedule import Arrival, LineSchedule

NUMBER: Final = "@"
"""Separator between the name of a pattern and a number that overrides the authors' choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPattern:
    """A communication pattern of a line of PEs that a user requested by its name.

    Attributes:
        name: The requested name.
        make: Function that makes the pattern. Its arguments are the number of PEs, the number of
            words per PE, and the cycles that a PE needs to receive, add and forward a word.
        form: Key of a formula for the cycle count of the pattern in
            `wse.backends.fabric.line.closed_forms`: (collective, algorithm). None if there is none.
        reduce: For a pattern from a user's file, the reduce on which it is based: an algorithm that
            adds up words on one PE, and may have formulas. None for all other patterns.
    """

    name: str
    make: Callable[[int, int, int], LineSchedule]
    form: tuple[str, str] | None = None
    reduce: LineReduce | None = None

    def for_words(self, words: int, level_cycles: int) -> Callable[[int], LineSchedule]:
        """Return a function that makes the pattern, given only the number of PEs.

        Calls with the same arguments return the same cached object.

        Args:
            words: 32-bit words of each PE.
            level_cycles: Cycles that a PE needs to receive, add and forward a word. Some patterns
                depend on it.
        """
        return _for_words(self.make, words, level_cycles)


@lru_cache(maxsize=1024)
def _for_words(
    make: Callable[[int, int, int], LineSchedule], words: int, level_cycles: int
) -> Callable[[int], LineSchedule]:
    """Return a function that makes a pattern, given only the number of PEs.

    Args:
        make: Function that makes the pattern for a number of PEs, and for the other arguments.
        words: 32-bit words of each PE.
        level_cycles: Cycles that a PE needs to receive, add and forward a word.
    """
    return lambda length: make(length, words, level_cycles)


Finish = Callable[[int, Reduce], LineSchedule]
"""Function from the number of PEs and a reduce to a pattern of one line based on the reduce."""


def into_end(length: int, reduce: Reduce) -> LineSchedule:
    """Return the pattern that adds up the words of all PEs of a line on its first PE.

    Args:
        length: Number of PEs on the line.
        reduce: Algorithm, which determines the PEs that exchange words.
    """
    return reduce(length, 1, Arrival.ADD)


def maker_of_reduce(
    pattern_name: str, reduce: LineReduce, number: int | None, finish: Finish
) -> Callable[[int, int, int], LineSchedule]:
    """Return a function that makes a communication pattern based on a reduce.

    A reduce adds up the words of all PEs of a line on one PE.

    Args:
        pattern_name: Requested name, for error messages.
        reduce: The reduce.
        number: Requested parameter of the reduce, such as the number of groups of a K-tree. None to
            use the number that the authors of the reduce choose.
        finish: Function that completes the reduce to a pattern, for example with a multicast.

    Raises:
        BadInput: A number is requested, but the reduce has no parameter.
    """
    if number is not None and reduce.authors_number is None:
        raise number_error(pattern_name)

    def make(length: int, words: int, level_cycles: int) -> LineSchedule:
        """Make the pattern for a line of PEs.

        Args:
            length: Number of PEs.
            words: Number of words per PE.
            level_cycles: Cycles that a PE needs to receive, add and forward a word.
        """
        chosen_number = number or (reduce.authors_number(length, words, level_cycles) if reduce.authors_number else 1)
        return finish(length, reduce.make(chosen_number))

    return make


def pattern_of_collective(pattern_name: str, number: int | None, collective: LineCollective) -> NamedPattern:
    """Return the pattern of a collective that is not based on a reduce, such as a broadcast.

    A reduce adds up the words of a line of PEs on one PE.

    Args:
        pattern_name: Requested name, which may contain a number after ``@``.
        number: The requested number, or None if the name contains none.
        collective: The collective.

    Raises:
        BadInput: The collective does not accept a number.
    """
    if number is not None and not collective.takes_number:
        raise number_error(pattern_name)
    form = collective.form if number is None else None
    return NamedPattern(
        name=pattern_name, make=lambda length, _words, _level: collective.make(length, number), form=form
    )


def number_error(pattern_name: str) -> BadInput:
    """Return the error for a number that a pattern does not accept, such as 4 in ``name@4``."""
    name = pattern_name.partition(NUMBER)[0]
    message = f"pattern {pattern_name!r}: has no number to choose; give {name!r} without a number"
    return BadInput(message)


ARGUMENTS: Final = "(length, lines, arrival)"
REMEDY: Final = f"give a function of {ARGUMENTS} that returns a LineSchedule, or a Pattern (docs/adding/pattern.md)"


def pattern_of_object(
    pattern_name: str, number: int | None, user_object: Any, path: Path, own_name: str
) -> NamedPattern:
    """Return the pattern that an object in a user's file defines.

    Args:
        pattern_name: Requested name, for error messages.
        number: Requested number after ``@``, or None.
        user_object: A Pattern, or a function that makes a ``LineSchedule``. Its arguments are the
            number of PEs on a line, the number of parallel lines, and an ``Arrival``, which states
            what a PE does with arriving words.
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
            raise BadInput(
                f"{path}: {own_name}: is called with {ARGUMENTS}, which it does not take ({error}); {REMEDY}"
            ) from error
        if number is not None:
            raise number_error(pattern_name)
        pattern = NamedPattern(
            name=pattern_name, make=lambda length, _words, _level: user_object(length, 1, Arrival.ADD)
        )
    else:
        raise BadInput(f"{path}: {own_name}: is of type {type(user_object).__name__}, not a pattern; {REMEDY}")
    return NamedPattern(
        name=pattern_name,
        make=_guarded(pattern.make, path, own_name),
        form=None,
        reduce=pattern.reduce if number is None else None,
    )


def _pattern_of_user_pattern(pattern_name: str, number: int | None, pattern: Pattern) -> NamedPattern:
    """Convert a Pattern object from a user's file to a named pattern.

    If the object defines a reduce (a summation on one PE), the result is this reduce. Otherwise, it
    is the first of the object's other collectives, such as a broadcast.

    Raises:
        BadInput: The object defines neither a reduce nor another collective, or does not accept
            the number.
    """
    if pattern.reduce is not None:
        return NamedPattern(
            name=pattern_name,
            make=maker_of_reduce(pattern_name, pattern.reduce, number, into_end),
            reduce=pattern.reduce,
        )
    for collective in pattern.collectives.values():
        return pattern_of_collective(pattern_name, number, collective)
    raise BadInput(f"{pattern_name}: this Pattern has neither a reduce nor a collective; {REMEDY}")


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
        """Make the user's pattern. Raise BadInput on an error, or if its type or length is wrong.

        Args:
            length: Number of PEs on the line.
            words: Number of words per PE.
            level_cycles: Cycles that a PE needs to receive, add and forward a word.
        """
        try:
            schedule = make(length, words, level_cycles)
        except WseError:
            raise
        except Exception as error:
            raise BadInput(f"{own_name} on {length} PEs: {fault_in_file(error, path)}") from error
        if not isinstance(schedule, LineSchedule):
            raise BadInput(f"{path}: {own_name}: returned an object of type {type(schedule).__name__}; {REMEDY}")
        if schedule.length != length:
            raise BadInput(f"{path}: {own_name}: made a pattern of {schedule.length} PEs instead of {length}")
        return schedule

    return guarded
