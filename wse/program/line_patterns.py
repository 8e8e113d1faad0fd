"""Communication patterns of one line of PEs, by name.

The names cover:

- Reduces and collectives that are made from them. Each reduce into an end of the line, such as
  ``chain``, has four names: ``chain``; ``chain_both_sides``, from both ends into the middle;
  ``chain_multicast``, an all-reduce that sends the sum to all PEs; and
  ``chain_both_sides_multicast``.
- Other collectives.
- Patterns of a user: ``FILE.py:NAME`` is a function of (length, lines, arrival) or a Pattern in
  that file.

``NAME@4`` overrides the number that the authors of a pattern choose. For a K-tree, this is the
number of groups; for a two-phase reduce, the number of PEs per group; for a searched tree, the
number of levels.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from wse.errors import BadInput, UnknownName
from wse.known_names import known_name
from wse.plugins import PATTERNS, names_file_object, object_of_file, refuse_file_alone, with_plugins, wrong_type
from wse.program.named_patterns import (
    NUMBER,
    Finish,
    NamedPattern,
    into_end,
    maker_of_reduce,
    pattern_of_collective,
    pattern_of_object,
)
from wse_mappings.patterns.catalogue import BUNDLED_PATTERNS
from wse_mappings.patterns.line_reduces import both_sides, reduce_multicast
from wse_mappings.patterns.pattern import LineCollective, LineReduce, Pattern, Reduce
from wse_mappings.schedule import Arrival, LineSchedule


@cache
def patterns() -> Mapping[str, Pattern]:
    """Return all communication patterns by name, with the bundled ones first.

    Raises:
        BadInput: An installed package provides a pattern that cannot be used.
    """
    return with_plugins(PATTERNS, BUNDLED_PATTERNS, _names)


@cache
def line_reduces() -> Mapping[str, LineReduce]:
    """Return all algorithms that add up the words of the PEs of a line on the PE at its end.

    The keys are the names of the communication patterns that use the algorithms.

    Raises:
        BadInput: An installed package provides a pattern that cannot be used.
    """
    return {name: pattern.reduce for name, pattern in patterns().items() if pattern.reduce is not None}


def _names(candidate: Any) -> tuple[str]:
    """Check that an object of an installed package is a pattern, and return its name in a tuple.

    Raises:
        TypeError: The object is not a Pattern.
    """
    if not isinstance(candidate, Pattern):
        raise wrong_type(candidate, "wse_mappings.patterns.pattern.Pattern")
    return (candidate.name,)


def cached_pattern(name: str) -> NamedPattern:
    """Return the communication pattern that a name stands for, from a cache if possible.

    Names and errors are those of `named_pattern`. A pattern from a user's file is cached until the
    file changes.
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
    """Return the names of all patterns for a line of PEs, including those of installed packages."""
    return [*_reduces(), *_collectives()]


def named_pattern(requested: str | Callable[..., Any]) -> NamedPattern:
    """Return the communication pattern that a name or a function stands for.

    The request is resolved as follows:

    1. A function is called to make the pattern; nothing is looked up.
    2. In a string, a number after ``@`` is separated from the name.
    3. ``FILE.py:NAME`` is an object in a user's file.
    4. Any other name refers to a reduce, a collective based on a reduce, or another collective.

    Args:
        requested: ``NAME``, ``NAME@NUMBER``, ``FILE.py:NAME``, or a function that makes a pattern.

    Raises:
        UnknownName: No pattern has this name.
        BadInput: The pattern does not accept the number; or a file or a package contains something
            that is not a pattern.
    """
    if not isinstance(requested, str):  # 1
        name = getattr(requested, "__name__", type(requested).__name__)
        return pattern_of_object(name, None, requested, Path(inspect.getsourcefile(requested) or name), name)
    name, _, number_text = requested.partition(NUMBER)
    number = None
    if NUMBER in requested:  # 2
        number = int(number_text) if re.fullmatch("[0-9]{1,9}", number_text) else 0
        if number < 1:
            raise BadInput(f"pattern {requested!r}: after {NUMBER} give a whole number of at least 1")
    if names_file_object(name):  # 3
        path, _, own_name = name.rpartition(":")
        return pattern_of_object(requested, number, object_of_file(name), Path(path), own_name)
    name = known_name(name, known_line_patterns()) or name  # 4
    if name in _reduces():
        base, finish = _reduces()[name]
        # A closed form exists for the authors' own number and for a reduce into an end only.
        form = (("all_reduce" if "_multicast" in name[len(base) :] else "reduce"), base)
        has_form = "_both_sides" not in name[len(base) :] and number is None
        return NamedPattern(
            name=requested,
            make=maker_of_reduce(requested, line_reduces()[base], number, finish),
            form=form if has_form else None,
        )
    if name in _collectives():
        return pattern_of_collective(requested, number, _collectives()[name])
    refuse_file_alone(name)
    raise UnknownName("pattern", name, known_line_patterns())


def _into_middle(length: int, reduce: Reduce) -> LineSchedule:
    """Return the pattern that adds up the words of all PEs of a line on its middle PE.

    Each half of the line adds up its words with the same algorithm.

    Args:
        length: Number of PEs.
        reduce: Algorithm that adds up the words of a line on the PE at its end.
    """
    return both_sides(length, 1, Arrival.ADD, reduce)


_FINISHES: dict[str, Finish] = {
    "": into_end,
    "_both_sides": _into_middle,
    "_multicast": lambda length, reduce: reduce_multicast(into_end(length, reduce), 0),
    "_both_sides_multicast": lambda length, reduce: reduce_multicast(_into_middle(length, reduce), length // 2),
}
"""Functions that make a collective from a reduce, by the suffix of the collective's name."""


def _reduces() -> dict[str, tuple[str, Finish]]:
    """Return the patterns that are based on a reduce, keyed by name.

    A reduce adds up the words of all PEs of a line on the PE at its end. A pattern may extend it,
    for example with a multicast that sends the sum to all PEs.

    Returns:
        For each pattern, the name of the reduce, and a function that makes the pattern from it.
    """
    return {base + end: (base, finish) for base in line_reduces() for end, finish in _FINISHES.items()}


def _collectives() -> dict[str, LineCollective]:
    """Return the collectives that are not based on a reduce, such as a broadcast, keyed by name."""
    return {name: collective for pattern in patterns().values() for name, collective in pattern.collectives.items()}
