"""Communication patterns of one line of PEs that were requested by name, or as a function.

A pattern is made from a reduce of a line into its end, or it is a collective of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wse.errors import BadInput
from wse_mappings.patterns.pattern import LineCollective, LineReduce, Reduce
from wse_mappings.schedule import Arrival, LineSchedule

NUMBER: Final = "@"
"""Separator between the name of a pattern and a number that overrides the authors' choice."""


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
        """Return a function that maps the number of PEs to the pattern, given the number of words.

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
    """Return a function that calls ``make`` with a number of PEs and the given other arguments.

    Args:
        make: Function that makes a pattern from a number of PEs, words and cycles per level.
        words: 32-bit words of each PE.
        level_cycles: Cycles per level of depth.
    """
    return lambda length: make(length, words, level_cycles)


Finish = Callable[[int, Reduce], LineSchedule]
"""Function from the number of PEs and a reduce to a pattern of one line based on the reduce."""


def into_end(length: int, reduce: Reduce) -> LineSchedule:
    """Return the pattern in which a line of PEs adds up its words into its first PE."""
    return reduce(length, 1, Arrival.ADD)


def maker_of_reduce(
    pattern_name: str, reduce: LineReduce, number: int | None, finish: Finish
) -> Callable[[int, int, int], LineSchedule]:
    """Return a function that makes a pattern from a reduce of a line.

    Args:
        pattern_name: Requested name, for error messages.
        reduce: The reduce.
        number: Requested number, such as the number of groups of a K-tree. None for the number that
            the authors of the pattern choose.
        finish: Function that makes the pattern from the reduce.

    Raises:
        BadInput: A number is requested, but the reduce does not depend on a number.
    """
    if number is not None and reduce.authors_number is None:
        raise number_error(pattern_name)

    def make(length: int, words: int, level_cycles: int) -> LineSchedule:
        """Make the pattern for a line of PEs.

        Args:
            length: Number of PEs.
            words: Number of words per PE.
            level_cycles: Cycles per level of depth.
        """
        chosen_number = number or (reduce.authors_number(length, words, level_cycles) if reduce.authors_number else 1)
        return finish(length, reduce.make(chosen_number))

    return make


def pattern_of_collective(pattern_name: str, number: int | None, collective: LineCollective) -> NamedPattern:
    """Return the pattern of a collective that is not based on a reduce.

    Args:
        pattern_name: Requested name.
        number: Requested number after ``@``, or None.
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
