"""Times of runs of decode passes by closed form: one calculation for thousands of passes of users in flight.

From pass to pass every cache grows by a token, so the context that a pass costs by rises by one. Between two grid
points the seconds of a pass are linear in the context, and those of a run are a sum of an arithmetic progression; sums
up to grid points are kept. The inverse, how many passes go into some seconds, is the root of a quadratic.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from wse.serving.simulation.pass_costs import PassCosts


class DecodeTimes:
    """Seconds of decode passes of a number of users, by the context before them."""

    def __init__(self, contexts: Sequence[int], pass_s: Callable[[int], float]) -> None:
        """``contexts`` rise from 0; ``pass_s`` gives the seconds of a pass at each of them."""
        self._contexts = list(contexts)
        self._seconds = [pass_s(context) for context in contexts]
        pairs = range(len(contexts) - 1)
        self._slopes = [
            (self._seconds[at + 1] - self._seconds[at]) / (self._contexts[at + 1] - self._contexts[at]) for at in pairs
        ]
        self._slopes.append(self._slopes[-1] if self._slopes else 0.0)  # beyond the last grid point
        self._sums = [0.0]
        for at in pairs:
            self._sums.append(self._sums[at] + self._part(at, self._contexts[at + 1] - self._contexts[at]))

    def pass_s(self, context: int) -> float:
        """Return the seconds of one pass."""
        at = bisect_right(self._contexts, context) - 1
        return self._seconds[at] + self._slopes[at] * (context - self._contexts[at])

    def run_s(self, context: int, passes: int) -> float:
        """Return the seconds of so many passes, the first of them after ``context`` tokens."""
        return self._sum(context + passes) - self._sum(context)

    def passes_until(self, context: int, seconds: float, most: int) -> int:
        """Return the fewest passes, at least one and at most ``most``, that take ``seconds`` or longer."""
        if self.run_s(context, most) < seconds:
            return most
        target = self._sum(context) + seconds
        at = max(0, bisect_right(self._sums, target) - 1)
        slope, rest = self._slopes[at] / 2, target - self._sums[at]
        linear = self._seconds[at] - slope
        root = linear + math.sqrt(max(0.0, linear * linear + 4 * slope * rest))
        passes = math.ceil(self._contexts[at] + 2 * rest / root) - context if root > 0 else 1
        passes = min(max(passes, 1), most)
        while passes > 1 and self.run_s(context, passes - 1) >= seconds:  # roundings
            passes -= 1
        while passes < most and self.run_s(context, passes) < seconds:
            passes += 1
        return passes

    def _sum(self, context: int) -> float:
        """Return the seconds of the passes after 0, 1 and so on up to ``context`` - 1 tokens."""
        at = bisect_right(self._contexts, context) - 1
        return self._sums[at] + self._part(at, context - self._contexts[at])

    def _part(self, at: int, passes: int) -> float:
        """Seconds of the first passes from a grid point on: passes × first + slope × passes (passes - 1) / 2."""
        return passes * (self._seconds[at] + self._slopes[at] * (passes - 1) / 2)


def decode_times(costs: PassCosts, users: int, tokens_per_pass: float) -> tuple[DecodeTimes, DecodeTimes]:
    """Return the seconds of rounds of some users, and those of the slowest stage's work in them.

    Contexts are counted in passes, each of which makes them longer by ``tokens_per_pass``.
    """
    contexts = sorted({round(context / tokens_per_pass) for context in costs.contexts})
    return (
        DecodeTimes(contexts, lambda context: costs.round_s(users, round(context * tokens_per_pass), ())),
        DecodeTimes(contexts, lambda context: costs.work_s(users, round(context * tokens_per_pass), ())),
    )


def gap_times(costs: PassCosts, users: int, tokens_per_pass: float, chunk_s: float) -> tuple[DecodeTimes, DecodeTimes]:
    """Return the seconds of rounds of some users in which prompts are read, and those that prompts have of them.

    Prompts have what decoded tokens leave of the slowest stage's time. They have at least ``chunk_s``, the time of a
    chunk, and as much as each user has where as many as possible decode. Contexts are counted in passes as in
    `decode_times`.
    """
    contexts = sorted({round(context / tokens_per_pass) for context in costs.contexts})

    def gap_s(context: int) -> float:
        tokens = round(context * tokens_per_pass)
        work_s = costs.work_s(users, tokens, ())
        fair_s = costs.work_s(costs.most_users, tokens, ()) / costs.most_users
        return max(chunk_s, fair_s, costs.round_s(users, tokens, ()) - work_s)

    def round_s(context: int) -> float:
        return costs.work_s(users, round(context * tokens_per_pass), ()) + gap_s(context)

    return DecodeTimes(contexts, round_s), DecodeTimes(contexts, gap_s)
