"""DecodeRounds: the rounds of a machine, in each of which every user in flight gets a decode pass.

Many rounds are computed at once (`DecodeTimes`), until a user has a complete answer or another
event may occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from wse.serving.simulation.continuous.prompt_reader import ROUNDING
from wse.serving.simulation.costs.decode_times import decode_times, gap_times
from wse.serving.simulation.costs.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.drafts import AnswerPasses
from wse.serving.simulation.outcome import Recorder
from wse.serving.simulation.workload import Workload


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


class GapRun(NamedTuple):
    """Duration of consecutive decode rounds in whose gaps prompts are read.

    In a decode round, each user gets one decode pass. A gap is the time in a round in which the
    busiest pipeline stage would otherwise be idle.

    Attributes:
        seconds: Total duration of the rounds.
        gap_s: Total duration of their gaps in seconds.
        round_per_gap: Duration of the last round, divided by the duration of its gap.
    """

    seconds: float
    gap_s: float
    round_per_gap: float


class DecodeRounds:
    """The users in flight, and the rounds in which their answers are decoded.

    In a round, each user gets one decode pass.

    Attributes:
        users: Users in flight.
    """

    def __init__(self, workload: Workload, costs: PassCosts, answers: AnswerPasses, record: Recorder) -> None:
        """Start without users in flight.

        Args:
            workload: The requests.
            costs: Times of passes.
            answers: Number of decode passes and initial context of each answer.
            record: Recorder of the simulation, to which the durations of passes are reported.
        """
        self.users = Users(answers)
        self._costs, self._record, self._tokens_per_pass = costs, record, answers.tokens_per_pass
        self._delays_s: list[float] = []  # of users who have just joined
        middle = int(workload.prompt_tokens.mean()) // 2
        chunk_s = costs.part_busy_s(PromptPart(costs.chunk_tokens, middle, ends=False))
        self._times = cache(lambda users: decode_times(costs, users, answers.tokens_per_pass))
        self._gap_times = cache(lambda users: gap_times(costs, users, answers.tokens_per_pass, chunk_s))

    @property
    def round_per_gap(self) -> float:
        """Ratio of the duration of the next decode round to the time for prompts in this round.

        In a decode round, each user gets one decode pass. Prompts are read in the *gap*, the time
        in which the busiest pipeline stage would otherwise be idle. Without users, all time is a
        gap, and the ratio is 1.
        """
        if not self.users.count:
            return 1.0
        times, gaps = self._gap_times(self.users.count)
        return times.pass_s(self.users.mean_context) / gaps.pass_s(self.users.mean_context)

    def join(self, request: int, delay_s: float) -> None:
        """Add the user of a request, whose answer is decoded starting with the next pass.

        Args:
            request: Index of the request.
            delay_s: Seconds between the first token of the answer and this pass.
        """
        self._delays_s.append(delay_s)
        self.users.join(request)

    def run(self, until_s: float) -> tuple[float, float]:
        """Simulate decode rounds until an answer is complete or another event may occur.

        In a decode round, each user gets one decode pass.

        Args:
            until_s: Seconds until another event may occur, such as the admission of a request.

        Returns:
            Total duration of the rounds and duration of the last round, in seconds.
        """
        context, max_passes = self.users.mean_context, self.users.passes_to_first
        times, work_times = self._times(self.users.count)
        passes = max_passes if until_s == inf else times.passes_until(context, until_s, max_passes)
        seconds, last_s = times.run_s(context, passes), times.pass_s(context + passes - 1)
        self._record.work_s += work_times.run_s(context, passes)
        self._end(times.pass_s(context), last_s, passes, seconds)
        return seconds, last_s

    def run_with_gaps(self, unread_s: float, until_s: float) -> GapRun:
        """Simulate rounds in whose gaps prompts are read, until a prompt or an answer ends.

        In a round, each user gets one decode pass. A gap is the time in a round in which the
        busiest pipeline stage would otherwise be idle.

        Args:
            unread_s: Seconds of gaps that are still needed to read the first prompt.
            until_s: Seconds until another event may occur, such as an admission.
        """
        if not self.users.count:
            seconds = min(unread_s, until_s)
            return GapRun(seconds, seconds, 1.0)
        times, gaps = self._gap_times(self.users.count)
        context, max_passes = self.users.mean_context, self.users.passes_to_first
        passes = gaps.passes_until(context, unread_s * (1 - ROUNDING), max_passes)
        if until_s < inf:
            passes = min(passes, times.passes_until(context, until_s, max_passes))
        seconds, last = times.run_s(context, passes), context + passes - 1
        self._end(times.pass_s(context), times.pass_s(last), passes, seconds)
        return GapRun(seconds, gaps.run_s(context, passes), times.pass_s(last) / gaps.pass_s(last))

    def run_with_prompts(self, parts: Sequence[PromptPart]) -> float:
        """Simulate one round in which parts of prompts are read, and return its seconds.

        In a round, each user also gets one decode pass.
        """
        users = self.users.count
        context = round(self.users.mean_context * self._tokens_per_pass) if users else 0
        seconds = self._costs.round_s(users, context, parts)
        self._record.work_s += self._costs.work_s(users, context, parts)
        if users:
            self._end(seconds, seconds, 1, seconds)
        return seconds

    def _end(self, first_s: float, last_s: float, passes: int, seconds: float) -> None:
        """Record decode passes that have ended, and add their tokens to the users' answers.

        Args:
            first_s, last_s: Seconds of the first and the last pass.
            passes: Number of passes.
            seconds: Total seconds of all passes.
        """
        delays_s, self._delays_s = self._delays_s, []
        self._record.decode_run(first_s, last_s, passes, self.users.count, seconds, delays_s)
        self.users.run(passes)
