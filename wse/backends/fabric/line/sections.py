"""Sections of a line that no message leaves or enters, so that they can be timed independently.

Examples are head groups that reduce side by side, and point-to-point streams far from each other.
Identical sections take the same time, which is computed once.

1. A section ends between two neighbouring PEs if no message of any simultaneous pattern passes
   there. Patterns along different axes share the ramps of PEs with equal indices, so all are cut at
   the same positions.
2. The messages of a section are stored relative to its first PE. Identical sections are therefore
   equal values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wse.arrays import I32, I64
from wse.backends.fabric.line.pieces import Places
from wse_mappings.schedule import Arrival


class LineArrays(NamedTuple):
    """Messages of a pattern on one line, with their colours and the distances along the line.

    Attributes:
        messages: int32 ``[m, 3]``: sending PE, receiving PE, effect at the receiver (Arrival).
        colours: int32 ``[m]``, fixed colours of the messages; None if they are not fixed.
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
    """

    messages: I32
    colours: I32 | None
    places: Places


class LineSection(NamedTuple):
    """Messages on a section of a line, stored as bytes so that identical sections share a dict key.

    A section is a part of a line that no message leaves or enters.

    Attributes:
        messages, colours, places: Bytes of the arrays of a `LineArrays`, relative to the first PE
            of the section.
    """

    messages: bytes
    colours: bytes | None
    places: bytes | None

    @classmethod
    def of(cls, line: LineArrays, first: int, message_indices: I64) -> LineSection:
        """Return the messages on one section of a line, relative to the section's first PE.

        A section is a part of a line that no message leaves or enters.

        Args:
            line: The whole line.
            first: First PE of the section.
            message_indices: Indices of the messages on the section.
        """
        messages, colours, places = line
        messages = messages[message_indices] - np.array([first, first, 0], np.int32)
        if places is not None:
            places = places[first : first + int(messages[:, :2].max(initial=0)) + 1]
            places = places - places[:1]
        return cls(
            messages.tobytes(),
            None if colours is None else colours[message_indices].tobytes(),
            None if places is None else places.tobytes(),
        )

    @property
    def line(self) -> LineArrays:
        """The section as NumPy arrays, which the timing functions take: messages, colours and distances."""
        return LineArrays(
            np.frombuffer(self.messages, np.int32).reshape(-1, 3),
            None if self.colours is None else np.frombuffer(self.colours, np.int32),
            None if self.places is None else np.frombuffer(self.places, np.int64),
        )


def sections_of(lines: Sequence[LineArrays]) -> list[tuple[LineSection, ...]]:
    """Divide the lines of patterns that run concurrently into sections, to time them separately.

    A section is a part of a line of PEs that no message leaves or enters. The module docstring
    describes the two steps.

    Args:
        lines: Messages of each pattern on its line.

    Returns:
        One tuple for each distinct section, with the messages of each pattern on the section. A
        pattern may have no messages there.
    """
    lines = [_fabric_messages(line) for line in lines]
    if not lines:
        return []
    firsts = _first_pes(lines)  # 1
    by_line = [
        [LineSection.of(line, *section) for section in _messages_by_section(line, firsts)] for line in lines
    ]  # 2
    return list(dict.fromkeys(zip(*by_line, strict=True)))


def _fabric_messages(line: LineArrays) -> LineArrays:
    """Return the messages of a line that use links, without the copies within a PE."""
    messages, colours, places = line
    travels = np.flatnonzero((messages[:, 2] != Arrival.COPY) & (messages[:, 0] != messages[:, 1]))
    return LineArrays(messages[travels], None if colours is None else colours[travels], places)


def _first_pes(lines: Sequence[LineArrays]) -> I64:
    """Return the first PE of each section that has messages, as int64 ``[s]``.

    A section is a part of a line that no message leaves or enters.
    """
    source, target = np.concatenate([line.messages[:, :2] for line in lines]).T
    low, high = np.minimum(source, target), np.maximum(source, target)
    size = int(high.max(initial=-1)) + 1
    begins, ends = np.bincount(low, minlength=size), np.bincount(high, minlength=size)
    passing = (begins - ends).cumsum()  # messages that pass from each PE to the next
    return np.flatnonzero((begins > 0) & (passing == begins - ends))


def _messages_by_section(line: LineArrays, firsts: I64) -> Iterator[tuple[int, I64]]:
    """Group the messages of a line by section, a part of the line that no message leaves.

    Args:
        line: The messages of the line.
        firsts: First PE of each section.

    Yields:
        For each section, its first PE and the indices of its messages.
    """
    if len(firsts) == 1:
        yield int(firsts[0]), np.arange(len(line.messages))
        return
    section_of_message = np.searchsorted(firsts, line.messages[:, :2].min(axis=1), side="right")
    order = np.argsort(section_of_message, kind="stable")
    ends = np.bincount(section_of_message, minlength=len(firsts) + 1).cumsum()
    yield from zip(firsts.tolist(), np.split(order, ends[:-1])[1:], strict=True)
