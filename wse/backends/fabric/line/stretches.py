"""Stretches of a line: where no message passes between two PEs, patterns on either side know nothing of each other.

Head groups that reduce side by side, or point-to-point streams apart, are stretches; equal ones take equal times and
are computed once.

1. A cut lies between two neighbours wherever no message of any pattern that runs at once passes; patterns along
   different axes meet on the ramps of PEs with equal places, so they are cut at the same places.
2. What happens on a stretch is written from its first PE on; equal stretches are one and the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wse.arrays import I32, I64
from wse.backends.fabric.line.pieces import Places
from wse_mappings.schedule import Arrival


class Line(NamedTuple):
    """The messages of one line, int32 ``[m, 3]``, with fixed colours int32 ``[m]`` and the hops of its PEs."""

    messages: I32
    colours: I32 | None
    places: Places


class Stretch(NamedTuple):
    """The messages on a segment of a line, as bytes of the arrays of a `Line`."""

    messages: bytes
    colours: bytes | None
    places: bytes | None

    @classmethod
    def of(cls, line: Line, first: int, chosen: I64) -> Stretch:
        """Return the chosen messages from PE ``first`` on."""
        messages, colours, places = line
        messages = messages[chosen] - np.array([first, first, 0], np.int32)
        if places is not None:
            places = places[first : first + int(messages[:, :2].max(initial=0)) + 1]
            places = places - places[:1]
        return cls(
            messages.tobytes(),
            None if colours is None else colours[chosen].tobytes(),
            None if places is None else places.tobytes(),
        )

    @property
    def line(self) -> Line:
        """The messages, colours and places as arrays."""
        return Line(
            np.frombuffer(self.messages, np.int32).reshape(-1, 3),
            None if self.colours is None else np.frombuffer(self.colours, np.int32),
            None if self.places is None else np.frombuffer(self.places, np.int64),
        )


def stretches_of(lines: Sequence[Line]) -> list[tuple[Stretch, ...]]:
    """Return the distinct segments of lines on which patterns run at the same time, with the messages of each.

    A pattern without messages on a stretch has an empty one.
    """
    lines = [_fabric_messages(line) for line in lines]
    if not lines:
        return []
    firsts = _first_pes(lines)  # 1
    by_line = [[Stretch.of(line, *of_stretch) for of_stretch in _on_stretches(line, firsts)] for line in lines]  # 2
    return list(dict.fromkeys(zip(*by_line, strict=True)))


def _fabric_messages(line: Line) -> Line:
    """Return only the messages that travel over the fabric."""
    messages, colours, places = line
    travels = np.flatnonzero((messages[:, 2] != Arrival.COPY) & (messages[:, 0] != messages[:, 1]))
    return Line(messages[travels], None if colours is None else colours[travels], places)


def _first_pes(lines: Sequence[Line]) -> I64:
    """Return the first PE of each segment with any message, int64 ``[s]``."""
    source, target = np.concatenate([line.messages[:, :2] for line in lines]).T
    low, high = np.minimum(source, target), np.maximum(source, target)
    size = int(high.max(initial=-1)) + 1
    begins, ends = np.bincount(low, minlength=size), np.bincount(high, minlength=size)
    passing = (begins - ends).cumsum()  # from each PE to the next
    return np.flatnonzero((begins > 0) & (passing == begins - ends))


def _on_stretches(line: Line, firsts: I64) -> Iterator[tuple[int, I64]]:
    """Yield the first PE of each segment, and the messages of a line on it, in order."""
    if len(firsts) == 1:
        yield int(firsts[0]), np.arange(len(line.messages))
        return
    of_message = np.searchsorted(firsts, line.messages[:, :2].min(axis=1), side="right")
    order = np.argsort(of_message, kind="stable")
    ends = np.bincount(of_message, minlength=len(firsts) + 1).cumsum()
    yield from zip(firsts.tolist(), np.split(order, ends[:-1])[1:], strict=True)
