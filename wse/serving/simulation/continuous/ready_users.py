"""ReadyUsers: users whose prompts have been read, and that have not started to decode."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

from wse.serving.simulation.continuous.token_observer import TokenObserver
from wse.serving.simulation.outcome import Recorder


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
