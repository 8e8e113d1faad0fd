"""Communication patterns that a user defines in a Python file or passes as a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput, WseError
from wse.plugins import fault_in_file
from wse.program.named_patterns import NamedPattern, into_end, maker_of_reduce, number_error, pattern_of_collective
from wse_mappings.patterns.pattern import Pattern
from wse_mappings.schedule import Arrival, LineSchedule

ARGUMENTS: Final = "(length, lines, arrival)"
REMEDY: Final = f"give a function of {ARGUMENTS} that returns a LineSchedule, or a Pattern (docs/adding/pattern.md)"


def pattern_of_object(
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
            raise number_error(pattern_name)
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
    """Convert a Pattern object from a user's file to a named pattern.

    The named pattern is the reduce of the object or, if it has none, its first collective.

    Raises:
        BadInput: The object has neither, or does not accept the number.
    """
    if pattern.reduce is not None:
        return NamedPattern(
            name=pattern_name,
            make=maker_of_reduce(pattern_name, pattern.reduce, number, into_end),
            reduce=pattern.reduce,
        )
    for collective in pattern.collectives.values():
        return pattern_of_collective(pattern_name, number, collective)
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
        """Make the user's pattern; raise BadInput if its type or length is wrong, or on an error.

        Args:
            length: Number of PEs on the line.
            words: Number of words per PE.
            level_cycles: Cycles per level of depth.
        """
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
