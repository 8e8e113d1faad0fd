"""Users: the users in flight, their contexts, and the rounds in which their answers end."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from wse.serving.simulation.drafts import AnswerPasses


class Users:
    """The users whose answers a machine decodes. Each user gets one decode pass per round.

    All users are advanced together, so a long run of rounds costs as little as a single one.

    Attributes:
        count: Number of users in flight.
    """

    def __init__(self, answers: AnswerPasses) -> None:
        """Create an empty set of users.

        Args:
            answers: Number of decode passes and initial context of each request's answer.
        """
        self.count = 0
        self._answers = answers
        self._rounds = 0
        self._finish: list[tuple[int, int]] = []  # heap of (round after which a user is done, request)
        self._context_sum = 0  # sum of contexts, in passes, as if all users had been in flight since round 0

    @property
    def mean_context(self) -> int:
        """Mean number of cached tokens per user, in units of the mean tokens per decode pass."""
        return self._context_sum // self.count + self._rounds

    @property
    def passes_to_first(self) -> int:
        """Number of decode passes until the next answer is complete."""
        return self._finish[0][0] - self._rounds

    def join(self, request: int) -> None:
        """Add the user of a request. The next simulated decode pass is the first for this user."""
        self.count += 1
        self._context_sum += self._answers.contexts[request] - self._rounds
        heappush(self._finish, (self._rounds + self._answers.passes[request], request))

    def run(self, passes: int) -> None:
        """Advance all users by a number of decode passes, at most `passes_to_first`."""
        self._rounds += passes

    def unfinished_passes(self) -> Iterator[tuple[int, int]]:
        """Yield each user's request, and the number of decode passes that it still needs."""
        for finish, request in self._finish:
            yield request, finish - self._rounds

    def end_after_next_pass(self, request: int) -> None:
        """Shorten the answer to a request in flight: the next decode pass becomes its last."""
        at = next(at for at, (_, user) in enumerate(self._finish) if user == request)
        self._answers.passes[request] -= self._finish[at][0] - (self._rounds + 1)
        self._finish[at] = (self._rounds + 1, request)
        heapify(self._finish)

    def pop_done(self) -> int | None:
        """Remove one user with a complete answer, if any, and return the index of its request."""
        if not self._finish or self._finish[0][0] != self._rounds:
            return None
        request = heappop(self._finish)[1]
        self.count -= 1
        self._context_sum -= self._answers.contexts[request] + self._answers.passes[request] - self._rounds
        return request
