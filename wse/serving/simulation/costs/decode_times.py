"""Closed forms for runs of decode passes, which replace thousands of events by one computation.

With every pass, the context of each user grows by one token. Between two grid points, the time of a
pass is linear in the context, so the time of a run is the sum of an arithmetic progression. Sums up
to the grid points are stored. The inverse, the number of passes in a given time, is the root of a
quadratic equation.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from wse.serving.simulation.costs.pass_costs import PassCosts


class DecodeTimes:
    """Duration of a decode pass for a fixed number of users, interpolated over the context length.

    Args:
        contexts: Context lengths in tokens at which times are computed, ascending from 0.
        pass_s: Function that maps a context length to the duration of a pass in seconds.
    """

    def __init__(self, contexts: Sequence[int], pass_s: Callable[[int], float]) -> None:
        """Compute the duration of a pass for each context length of a grid.

        Args:
            contexts: Grid of context lengths, ascending from 0.
            pass_s: Function that maps a context length to the duration of a pass in seconds.
        """
        self._contexts = list(contexts)
        self._seconds = [pass_s(context) for context in contexts]
        pairs = range(len(contexts) - 1)
        self._slopes = [
            (self._seconds[at + 1] - self._seconds[at]) / (self._contexts[at + 1] - self._contexts[at]) for at in pairs
        ]
        self._slopes.append(self._slopes[-1] if self._slopes else 0.0)  # after the last grid point
        self._sums = [0.0]
        for at in pairs:
            self._sums.append(self._sums[at] + self._part(at, self._contexts[at + 1] - self._contexts[at]))

    def pass_s(self, context: int) -> float:
        """Return the duration in seconds of a decode pass with ``context`` tokens in each cache."""
        grid_index = bisect_right(self._contexts, context) - 1
        return self._seconds[grid_index] + self._slopes[grid_index] * (context - self._contexts[grid_index])

    def run_s(self, context: int, passes: int) -> float:
        """Return the total duration in seconds of passes that each lengthen the context by 1.

        Args:
            context: Context length before the first pass.
            passes: Number of passes.
        """
        return self._sum(context + passes) - self._sum(context)

    def passes_until(self, context: int, seconds: float, max_passes: int) -> int:
        """Return the minimum number of passes whose total duration reaches a given time.

        Args:
            context: Context length before the first pass.
            seconds: Minimum duration of these passes.
            max_passes: Upper limit on the result, which is at least 1.
        """
        if self.run_s(context, max_passes) < seconds:
            return max_passes
        target = self._sum(context) + seconds
        grid_index = max(0, bisect_right(self._sums, target) - 1)
        half_slope, remaining_s = self._slopes[grid_index] / 2, target - self._sums[grid_index]
        linear = self._seconds[grid_index] - half_slope
        root = linear + math.sqrt(max(0.0, linear * linear + 4 * half_slope * remaining_s))
        passes = math.ceil(self._contexts[grid_index] + 2 * remaining_s / root) - context if root > 0 else 1
        passes = min(max(passes, 1), max_passes)
        while passes > 1 and self.run_s(context, passes - 1) >= seconds:  # corrects rounding errors
            passes -= 1
        while passes < max_passes and self.run_s(context, passes) < seconds:
            passes += 1
        return passes

    def _sum(self, context: int) -> float:
        """Return the total duration in seconds of ``context`` passes, starting at context 0."""
        grid_index = bisect_right(self._contexts, context) - 1
        return self._sums[grid_index] + self._part(grid_index, context - self._contexts[grid_index])

    def _part(self, at: int, passes: int) -> float:
        """Return the duration in seconds of the first n passes starting at a grid point.

        Between grid points, the duration of a pass is linear in the context. The sum is
        n t + s n (n - 1) / 2, where t is the duration at the grid point and s is the slope.

        Args:
            at: Index of the grid point.
            passes: Number of passes n, up to the next grid point.
        """
        return passes * (self._seconds[at] + self._slopes[at] * (passes - 1) / 2)


def decode_times(costs: PassCosts, users: int, tokens_per_pass: float) -> tuple[DecodeTimes, DecodeTimes]:
    """Return the duration of rounds without prompts, as a function of the context.

    A round is the time in which every user gets one decode pass.

    Args:
        costs: Pass times.
        users: Number of users in flight.
        tokens_per_pass: Mean tokens per pass and user. The unit of contexts in the results is this
            number of tokens, so a context grows by 1 per pass.

    Returns:
        The duration of a round, and the busiest stage's work in it.
    """
    contexts = sorted({round(context / tokens_per_pass) for context in costs.contexts})
    return (
        DecodeTimes(contexts, lambda context: costs.round_s(users, round(context * tokens_per_pass), ())),
        DecodeTimes(contexts, lambda context: costs.work_s(users, round(context * tokens_per_pass), ())),
    )


def gap_times(costs: PassCosts, users: int, tokens_per_pass: float, chunk_s: float) -> tuple[DecodeTimes, DecodeTimes]:
    """Return the duration of rounds in which prompts are processed, as a function of the context.

    In a round, every user gets one decode pass. Prompts are processed in the time when the busiest
    stage has no decode work (a gap). If necessary, a round is extended so that its gap is at least
    as long as both of the following:

    - ``chunk_s``
    - the busiest stage's decode work per user when the maximum number of users decode

    Args:
        costs: Pass times.
        users: Number of users in flight.
        tokens_per_pass: Mean tokens per pass and user. The unit of contexts in the results is this
            number of tokens, so a context grows by 1 per pass.
        chunk_s: Time in seconds that the busiest stage works on one chunk of a prompt.

    Returns:
        The duration of a round, and the duration of the gap in it.
    """
    contexts = sorted({round(context / tokens_per_pass) for context in costs.contexts})

    def gap_s(context: int) -> float:
        """Return how long the busiest stage processes prompts in a round, in seconds.

        Args:
            context: Context length in passes.
        """
        tokens = round(context * tokens_per_pass)
        work_s = costs.work_s(users, tokens, ())
        fair_s = costs.work_s(costs.max_users, tokens, ()) / costs.max_users
        return max(chunk_s, fair_s, costs.round_s(users, tokens, ()) - work_s)

    def round_s(context: int) -> float:
        """Return the duration in seconds of a round in which prompts are processed.

        Args:
            context: Context length in passes.
        """
        return costs.work_s(users, round(context * tokens_per_pass), ()) + gap_s(context)

    return DecodeTimes(contexts, round_s), DecodeTimes(contexts, gap_s)
