"""Prompts that are being read: which pieces of them a round reads, or what is left of them when they fill gaps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from wse.serving.simulation.pass_costs import PassCosts, Piece
from wse.serving.simulation.workload import NORMAL

ROUNDING: Final = 1e-9
"""Part of a prompt that is put down to rounding when the rest of it is read."""


class PromptReader:
    """The prompts that a machine reads, those of the fast tier first, of one tier in the order of their admission.

    Args:
        prompt_tokens: Lengths of all prompts of the workload.
        costs: Passes of the machine.

    Attributes:
        gap_free_s: When the gaps of the rounds until now were last in use.
    """

    def __init__(self, prompt_tokens: Sequence[int], costs: PassCosts) -> None:
        self.gap_free_s = -math.inf
        self._costs, self._prompts = costs, prompt_tokens
        self._read_tokens: dict[int, int] = {}
        self._unread_s: dict[int, float] = {}  # work that the rest of a prompt is, where prompts fill gaps
        self._queues: list[deque[int]] = [deque() for _ in range(NORMAL + 1)]

    @property
    def is_reading(self) -> bool:
        """True if a prompt is left to read."""
        return any(self._queues)

    def begin(self, request: int, tier: int, read_tokens: int) -> None:
        """Add the prompt of a request, the first ``read_tokens`` of which are in the cache already."""
        self._read_tokens[request] = read_tokens
        self._queues[tier].append(request)

    def next_pieces(self, budget: int) -> tuple[list[Piece], list[tuple[int, Piece]]]:
        """Take the pieces that the next round reads.

        Args:
            budget: Maximum number of tokens; a round reads at least one chunk for any budget.

        Returns:
            The pieces, and those of them that end a prompt, with its request.
        """
        pieces: list[Piece] = []
        ended: list[tuple[int, Piece]] = []
        chunk = self._costs.chunk_tokens
        for queue in self._queues:
            while queue and budget > 0:
                request = queue[0]
                context = self._read_tokens[request]
                left = self._prompts[request] - context
                tokens = left if left <= budget else budget // chunk * chunk
                if not tokens and not pieces:
                    tokens = min(left, chunk)
                if not tokens:
                    return pieces, ended
                piece = Piece(tokens, context, tokens == left)
                pieces.append(piece)
                self._read_tokens[request] += tokens
                budget -= tokens
                if piece.ends:
                    ended.append((queue.popleft(), piece))
        return pieces, ended

    def first_unread_s(self) -> float:
        """Return the seconds of the slowest stage's work that the rest of the first prompt is."""
        return self._seconds(next(queue[0] for queue in self._queues if queue))

    def read_in_gaps(self, gap_s: float, end_s: float, round_per_gap: float) -> tuple[float, list[tuple[float, int]]]:
        """Read prompts in gaps that add up to some seconds.

        Args:
            gap_s: Seconds of all gaps.
            end_s: When the last gap is over.
            round_per_gap: Seconds that pass in a second of gaps at the end.

        Returns:
            Seconds that no prompt is left for, and the requests whose prompts have been read, each after the time at
            which its first token is out.
        """
        ready: list[tuple[float, int]] = []
        for queue in self._queues:
            while queue and gap_s > 0:
                request = queue[0]
                read_s = min(gap_s, self._seconds(request))
                gap_s -= read_s
                self._unread_s[request] -= read_s
                if self._unread_s[request] > ROUNDING * read_s:
                    break
                queue.popleft()
                del self._unread_s[request]
                drain_s = self._costs.drain_s(self._rest(request))
                ready.append((end_s - gap_s * round_per_gap + drain_s, request))
        self.gap_free_s = end_s - gap_s * round_per_gap
        return gap_s, ready

    def _seconds(self, request: int) -> float:
        if request not in self._unread_s:
            self._unread_s[request] = self._costs.piece_busy_s(self._rest(request))
        return self._unread_s[request]

    def _rest(self, request: int) -> Piece:
        """Return the part of a prompt that was not in the cache when its request was admitted."""
        context = self._read_tokens[request]
        return Piece(self._prompts[request] - context, context)
