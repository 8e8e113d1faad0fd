"""Users in flight: how long their contexts are, and after which round each is done."""

from __future__ import annotations

from heapq import heappop, heappush

from wse.serving.simulation.drafts import AnswerPasses


class Users:
    """The users whose answers a machine decodes, one pass of each in every round.

    Args:
        answers: Passes and contexts of all requests of the workload.

    Attributes:
        count: Number of users in flight.
    """

    def __init__(self, answers: AnswerPasses) -> None:
        self.count = 0
        self._answers = answers
        self._rounds = 0
        self._finish: list[tuple[int, int]] = []  # the round after which a user is done
        self._context_sum = 0  # of contexts at round 0, in passes

    @property
    def mean_context(self) -> int:
        """Mean context of the users in flight, in passes."""
        return self._context_sum // self.count + self._rounds

    @property
    def passes_to_first(self) -> int:
        """Rounds after which the first user is done."""
        return self._finish[0][0] - self._rounds

    def join(self, request: int) -> None:
        """Add a user, whose first pass is in the next round."""
        self.count += 1
        self._context_sum += self._answers.contexts[request] - self._rounds
        heappush(self._finish, (self._rounds + self._answers.passes[request], request))

    def run(self, passes: int) -> None:
        """Count rounds that have been run, at most until the first user is done."""
        self._rounds += passes

    def pop_done(self) -> int | None:
        """Remove a user whose last pass is over; None where there is none."""
        if not self._finish or self._finish[0][0] != self._rounds:
            return None
        request = heappop(self._finish)[1]
        self.count -= 1
        self._context_sum -= self._answers.contexts[request] + self._answers.passes[request] - self._rounds
        return request
