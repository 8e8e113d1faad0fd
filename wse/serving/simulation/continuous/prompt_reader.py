"""Users before their first decode pass: PromptReader while prompts are read, then ReadyUsers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

from wse.serving.simulation.costs.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.outcome import Recorder
from wse.serving.simulation.workload import NORMAL


class TokenObserver(Protocol):
    """Interface for objects that process the times of tokens during a simulation.

    In a round, each user gets one decode pass. The times of a round may be reported when it starts,
    so they do not depend on requests that arrive later in the same round.
    """

    def first_token(self, request: int, at_s: float) -> None:
        """Process the time at which a user gets the first token of an answer.

        Args:
            request: Index of the request.
            at_s: Time in seconds.
        """

    def next_tokens(self, request: int, unfinished_passes: int, at_s: float) -> None:
        """Process the time at which a user gets the tokens of one decode pass.

        Args:
            request: Index of the request.
            unfinished_passes: Number of decode passes that the answer still needs; 0 if it is
                complete.
            at_s: Time in seconds.
        """


ROUNDING: Final = 1e-9
"""Relative remainder of a prompt that is attributed to rounding."""


class PromptReader:
    """Queue of prompts that a machine is reading.

    Prompts of the fast service tier come first. Prompts of a tier are in the order of admission.

    Attributes:
        gap_free_s: Time until which the gaps (idle time of the busiest stage) have been used.
    """

    def __init__(self, prompt_tokens: Sequence[int], costs: PassCosts) -> None:
        """Create a reader with no prompts to read.

        Args:
            prompt_tokens: Lengths of all prompts of the workload, in tokens.
            costs: Pass times on the machine.
        """
        self.gap_free_s = -math.inf
        self._costs, self._prompts = costs, prompt_tokens
        self._read_tokens: dict[int, int] = {}
        self._unread_s: dict[int, float] = {}  # remaining work of each prompt, if prompts fill gaps
        self._queues: list[deque[int]] = [deque() for _ in range(NORMAL + 1)]

    @property
    def is_reading(self) -> bool:
        """True if there is a prompt to read."""
        return any(self._queues)

    def begin(self, request: int, tier: int, read_tokens: int) -> None:
        """Add the prompt of a request to the queue.

        Args:
            request: Index of the request.
            tier: Service tier of the request.
            read_tokens: Tokens at the start of the prompt that are already in the cache.
        """
        self._read_tokens[request] = read_tokens
        self._queues[tier].append(request)

    def remove(self, request: int, tier: int) -> bool:
        """Stop reading the prompt of a request. Return whether it was being read.

        Args:
            request: Index of the request.
            tier: Service tier of the request.
        """
        is_read = request in self._queues[tier]
        if is_read:
            self._queues[tier].remove(request)
            self._unread_s.pop(request, None)
        return is_read

    def next_parts(self, budget: int) -> tuple[list[PromptPart], list[tuple[int, PromptPart]]]:
        """Choose the parts of prompts that are read in the next round, and count them as read.

        In a round, each user also gets one decode pass.

        Args:
            budget: Maximum number of tokens, at least 1. A budget of less than a chunk is rounded
                up to one chunk.

        Returns:
            All chosen parts, and a pair (request, part) for each part that completes its prompt.
        """
        parts: list[PromptPart] = []
        completed: list[tuple[int, PromptPart]] = []
        chunk = self._costs.chunk_tokens
        for queue in self._queues:
            while queue and budget > 0:
                request = queue[0]
                context = self._read_tokens[request]
                unread_tokens = self._prompts[request] - context
                tokens = unread_tokens if unread_tokens <= budget else budget // chunk * chunk
                if not tokens and not parts:
                    tokens = min(unread_tokens, chunk)
                if not tokens:
                    return parts, completed
                part = PromptPart(tokens, context, tokens == unread_tokens)
                parts.append(part)
                self._read_tokens[request] += tokens
                budget -= tokens
                if part.ends:
                    completed.append((queue.popleft(), part))
        return parts, completed

    def first_unread_s(self) -> float:
        """Return how long the busiest stage must work until the first prompt is read."""
        return self._seconds(next(queue[0] for queue in self._queues if queue))

    def read_in_gaps(self, gap_s: float, end_s: float, round_per_gap: float) -> tuple[float, list[tuple[float, int]]]:
        """Read prompts in the gaps of some rounds, in the order of the queue.

        A gap is the time in a round (one decode pass of each user) in which the busiest pipeline
        stage has no decode work.

        Args:
            gap_s: Total duration of the gaps, in seconds.
            end_s: Time at which the last gap ends.
            round_per_gap: Duration of the last round, divided by the duration of its gap.

        Returns:
            1. The seconds of the gaps that no prompt uses.
            2. For each completed prompt, the time of the answer's first token and the request.
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
        """Return how long the busiest pipeline stage must work until a prompt is read.

        The result is in seconds.
        """
        if request not in self._unread_s:
            self._unread_s[request] = self._costs.part_busy_s(self._rest(request))
        return self._unread_s[request]

    def _rest(self, request: int) -> PromptPart:
        """Return the part of a prompt that must be read: all tokens that are not in the cache."""
        context = self._read_tokens[request]
        return PromptPart(self._prompts[request] - context, context)


class ReadyUsers:
    """Queue of users whose prompts have been read, and whose decoding has not started yet.

    Users are ordered by the time from which they can decode. This is the time of their first token
    or, with a separate prefill machine, the time at which their KV cache arrives.
    """

    def __init__(self, record: Recorder, observer: TokenObserver | None, *, host_s: float | None) -> None:
        """Create an empty queue.

        Args:
            record: Recorder of the simulation, which receives the times of first tokens.
            observer: Receives the times of first tokens as well; None if nobody needs them.
            host_s: Seconds until the reader gets a token that the machine has generated; None if a
                separate prefill machine has already recorded the times of first tokens.
        """
        self._record, self._observer, self._host_s = record, observer, host_s
        self._users: list[tuple[float, int]] = []  # heap of (time, request)

    @property
    def next_s(self) -> float:
        """Time from which the next user can decode; infinity if there is no user."""
        return self._users[0][0] if self._users else inf

    def add(self, ready_s: float, request: int) -> None:
        """Add the user of a request, whose prompt has been read.

        Args:
            ready_s: Time from which the answer can be decoded.
            request: Index of the request.
        """
        heappush(self._users, (ready_s, request))
        if self._host_s is not None:
            self._record.first_s[request] = ready_s + self._host_s
        if self._observer is not None:
            self._observer.first_token(request, self._record.first_s[request])

    def pop(self) -> tuple[float, int]:
        """Remove the next user. Return the time from which it can decode, and its request."""
        return heappop(self._users)

    def remove(self, request: int) -> bool:
        """Remove a request from the queue. Return False if it was not in the queue."""
        users = [user for user in self._users if user[1] != request]
        is_there = len(users) < len(self._users)
        self._users = users
        heapify(self._users)
        return is_there
