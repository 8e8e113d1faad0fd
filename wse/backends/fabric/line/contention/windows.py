"""Time windows in which the words of a message pass the places of their path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wse.backends.fabric.line.contention.conflicts import SharedEnd


class Window(NamedTuple):
    """Time window in which the words of a message leave one router on their path.

    Words that arrive before the receiver is ready wait between this router and the receiver. Their
    number is limited by ``departed_words`` and ``room``.

    Attributes:
        first, last: Cycles at which the first and the last word leave this router.
        words: Number of words.
        departed_words: Maximum number of words that can have left this router before the receiving
            operation starts; 0 if words do not wait.
        room: Number of words that fit between this router and the receiver, in queues and on
            wires; used only if words wait.
        contention_cycles: Part of the window in which words wait for words of other streams.
    """

    first: float
    last: float
    words: int
    departed_words: float = 0.0
    room: int = 0
    contention_cycles: float = 0.0

    @property
    def rate(self) -> float:
        """Mean words per cycle from the first to the last word, including cycles spent waiting."""
        return self.words / (self.last - self.first + 1)

    @property
    def pace(self) -> float:
        """Mean words per cycle, without the cycles spent waiting for words of other streams."""
        return self.words / (self.last - self.contention_cycles - self.first + 1)

    def first_at(self, shift: int, room: int) -> float:
        """Return the cycle from which words pass a place on their path at a constant rate.

        If the receiver is not ready, some words pass the place early and wait for the receiver. The
        result is then the cycle in which the next word after them passes the place.

        Args:
            shift: Cycles that a word needs from the start of the path to the place.
            room: Number of words that fit between the start and the place.
        """
        if not self.departed_words:
            return self.first + shift
        waiting_words = max(0.0, min(self.departed_words - shift, self.room - room))
        return self.first + shift + waiting_words / self.rate


def overlap_in_time(
    first: float, last: float, other_first: float, other_last: float, shared_ends: Sequence[SharedEnd]
) -> bool:
    """Return True if two streams of words may be at the same place at the same time.

    The result is False only if, at every place, the same stream has passed before the other one
    arrives.

    Args:
        first, last: Cycles of the first and the last word of one stream at its source.
        other_first, other_last: Cycles of the first and the last word of the other stream at its
            source.
        shared_ends: Places that both streams pass.
    """
    always_before = always_after = True
    for shift, other_shift, _ in shared_ends:
        always_before = always_before and last + shift < other_first + other_shift
        always_after = always_after and first + shift > other_last + other_shift
    return not (always_before or always_after)
