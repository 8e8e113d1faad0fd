"""LineSchedule: a communication pattern along lines of PEs, as a sequence of messages.

A line is a row or column of PEs in a region, and all lines work concurrently. A variant is a list
of messages that lines execute. In a loop, a pattern is executed once per round, and a line may
execute a different variant in each round.

Values, link loads, cycles and routes of a pattern all follow from this one description.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]


class Arrival(IntEnum):
    """Effect of a message at its target PE, such as storing the received words or adding them."""

    REPLACE = 0
    ADD = 1
    MAX = 2
    ARGMAX = 3  # of two (value, index) pairs, keep that with the larger value, or the lower index on a tie
    MULTICAST = 4  # replaces the words at the target and at every PE on the way
    COPY = 5  # a local copy, without the fabric
    DROP = 6  # travels, but is not stored


COMBINING: Final = (Arrival.ADD, Arrival.MAX, Arrival.ARGMAX)
"""Arrivals that combine a message's words with the stored words."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LineSchedule:
    """Communication pattern of messages along all lines (rows or columns) of a rectangle of PEs.

    A variant is a list of messages that one or several lines execute. In a loop, the pattern is
    executed once per round, and a line may execute a different variant in each round.

    Attributes:
        name: Name of the pattern.
        length: Number of PEs in a line.
        messages: int32 ``[m, 3]``: (source, target, Arrival) of the messages of all variants, where
            source and target are indices of PEs in the line. Sums are added up in this order.
        first: int32 ``[v + 1]``: variant v consists of messages ``first[v]`` to ``first[v + 1]`` -
            1.
        variants: int32 ``[rounds, lines]``: index of the variant that each line executes in each
            round. A loop with more rounds starts again with the first one.
        colours: Number of colours that the pattern occupies on a PE. Their routes are configured in
            the routers.
        slowest_variants: Variants, at least one of which takes the longest time; empty if unknown.
        changes_with_round: Whether rounds may take different times.
        message_colours: int32 ``[m]``: colour of each message, from 0 to colours - 1. Messages of
            one colour pass a router in order. None to give different colours to messages that cross
            a router differently.
        parts: Number of parts into which each PE's words are divided. Part i begins at word ``i *
            words // parts``.
        part: int32 ``[m]``: the part that each message carries; None if messages carry all words.
        overlaps: Whether the rounds of a loop overlap: a PE starts the next round once its own work
            in the previous round is done.
        store_and_forward: Whether a PE receives a whole message before it sends its own, instead of
            forwarding each word as it arrives.
    """

    name: str
    length: int
    messages: I32
    first: I32
    variants: I32
    colours: int
    slowest_variants: tuple[int, ...] = ()
    changes_with_round: bool = False
    message_colours: I32 | None = None
    parts: int = 1
    part: I32 | None = None
    overlaps: bool = False
    store_and_forward: bool = False

    @cached_property
    def travels(self) -> bool:
        """True if any message crosses the fabric; False if all messages are local copies."""
        return bool((self.messages[:, 2] != Arrival.COPY).any())

    def with_messages(self, is_selected: tuple[bool, ...]) -> LineSchedule:
        """Return a copy of the schedule that contains only some of its messages.

        The selected messages form a single list, which all lines execute.

        Args:
            is_selected: For each message, whether to keep it.
        """
        messages = np.ascontiguousarray(self.messages[np.array(is_selected, np.bool_)])
        return replace(self, messages=messages, first=np.array([0, len(messages)], np.int32))

    def critical(self, variants: I32) -> list[int]:
        """Return those of the given variants that may take the longest time, without duplicates.

        A variant is one of the lists of messages that lines of PEs execute. The result is the given
        variants that are in ``slowest_variants``, or all given variants if none of them are.
        """
        distinct = set(variants.tolist())
        return sorted(distinct & self._slowest_set or distinct)

    @cached_property
    def _slowest_set(self) -> frozenset[int]:
        """Variants (lists of messages), one of which takes the longest time; empty if unknown."""
        return frozenset(self.slowest_variants)

    def words_of_messages(self, words: int) -> npt.NDArray[np.int64]:
        """Return the number of words per message, int64 ``[m]``, if each PE has ``words`` words."""
        first, end = self.spans_of_messages(words)
        return np.asarray(end - first, np.int64)

    def spans_of_messages(self, words: int) -> npt.NDArray[np.int64]:
        """Return which words of its sender each message carries, int64 ``[2, m]``.

        Args:
            words: Number of words per PE. A message sends all of them, or one of several parts.

        Returns:
            For each message, the index of the first word, and the index after the last word.
        """
        part = np.zeros(len(self.messages), np.int64) if self.part is None else self.part
        cuts = np.arange(self.parts + 1) * words // self.parts
        return np.stack([cuts[part], cuts[part + 1]])

    def line_messages(self, line: int, round_: int = 0) -> I32:
        """Return the messages (source, target, Arrival) that one line executes in one round."""
        return self.variant_messages(int(self.variants[round_ % len(self.variants), line]))[0]

    def variant_messages(self, variant: int) -> tuple[I32, I32 | None, I32 | None]:
        """Return the messages of a variant, with their colours and the parts they carry.

        A variant is one of the lists of messages that lines execute.

        Returns:
            int32 ``[m, 3]`` (source, target, Arrival); int32 ``[m]``, colours, or None if the
            pattern does not fix them; and int32 ``[m]``, parts, or None if words are not divided.
        """
        span = slice(int(self.first[variant]), int(self.first[variant + 1]))
        return (
            self.messages[span],
            None if self.message_colours is None else self.message_colours[span],
            None if self.part is None else self.part[span],
        )


def _messages(messages: Iterable[tuple[int, int, Arrival]]) -> I32:
    """Return messages as an int32 array ``[m, 3]`` of sources, targets and arrivals."""
    return np.fromiter(chain.from_iterable(messages), np.int32).reshape(-1, 3)


def outward_multicasts(root: int, start: int, end: int) -> list[tuple[int, int, Arrival]]:
    """Return the messages of a multicast from a PE to all other PEs in a line segment.

    There is one message in each direction, up to the end of the segment.

    Args:
        root: Sending PE, which may be outside the segment.
        start, end: First PE of the segment, and the PE after its last PE.
    """
    return [(root, last, Arrival.MULTICAST) for last in dict.fromkeys((end - 1, start)) if last != root]


def uniform_schedule(
    name: str,
    length: int,
    lines: int,
    messages: list[tuple[int, int, Arrival]],
    colours: int,
    *,
    message_colours: list[int] | None = None,
) -> LineSchedule:
    """Return a schedule in which every line of PEs executes the same messages.

    Args:
        name: Name of the pattern.
        length: Number of PEs in a line.
        lines: Number of lines.
        messages: (source, target, Arrival) of each message, in order.
        colours: Number of colours that the pattern occupies on a PE.
        message_colours: Colour of each message. None to give different colours to messages that
            cross a router differently.
    """
    array = _messages(messages)
    return LineSchedule(
        name=name,
        length=length,
        messages=array,
        first=np.array([0, len(array)], np.int32),
        variants=np.zeros((1, lines), np.int32),
        colours=colours,
        message_colours=None if message_colours is None else np.array(message_colours, np.int32),
    )


def varied_schedule(
    name: str,
    length: int,
    groups: list[list[tuple[int, int, Arrival]]],
    variants: I32,
    colours: int,
    *,
    slowest_variants: tuple[int, ...] = (),
    message_colours: list[int] | None = None,
) -> LineSchedule:
    """Return a schedule whose lines of PEs execute different lists of messages (variants).

    Args:
        name: Name of the pattern.
        length: Number of PEs in a line.
        groups: (source, target, Arrival) messages of each variant.
        variants: int32 ``[rounds, lines]``: index of the variant that each line executes in each
            round.
        colours: Number of colours that the pattern occupies on a PE.
        slowest_variants: Variants, at least one of which takes the longest time; empty if unknown.
        message_colours: Colour of each message of all variants, or None.
    """
    first = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    return LineSchedule(
        name=name,
        length=length,
        messages=_messages(chain.from_iterable(groups)),
        first=first.astype(np.int32),
        variants=np.ascontiguousarray(variants, np.int32),
        colours=colours,
        slowest_variants=slowest_variants,
        message_colours=None if message_colours is None else np.array(message_colours, np.int32),
    )


def even_schedule(
    name: str,
    length: int,
    messages: I32,
    variants: I32,
    colours: int,
    *,
    slowest_variants: tuple[int, ...] = (),
    changes_with_round: bool = False,
) -> LineSchedule:
    """Return a schedule whose variants (lists of messages) all have the same number of messages.

    Args:
        name: Name of the pattern.
        length: Number of PEs in a line.
        messages: int32 ``[variants, m, 3]``: (source, target, Arrival) of each message of each
            variant.
        variants: int32 ``[rounds, lines]``: index of the variant that each line executes in each
            round.
        colours: Number of colours that the pattern occupies on a PE.
        slowest_variants: Variants, at least one of which takes the longest time; empty if unknown.
        changes_with_round: Whether rounds may take different times.
    """
    count, size = messages.shape[:2]
    return LineSchedule(
        name=name,
        length=length,
        messages=np.ascontiguousarray(messages, np.int32).reshape(-1, 3),
        first=np.arange(count + 1, dtype=np.int32) * np.int32(size),
        variants=np.ascontiguousarray(variants, np.int32),
        colours=colours,
        slowest_variants=slowest_variants,
        changes_with_round=changes_with_round,
    )
