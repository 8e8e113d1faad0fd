"""Speculative decoding: what drafting tokens ahead and checking them in one pass of the model gains.

A draft proposes some tokens; one pass of the model accepts those up to the first that it would not have chosen, and
gives one token of its own. Source: Leviathan, Kalman, Matias, Fast inference from transformers via speculative
decoding, ICML 2023, arXiv 2211.17192.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import Final

from wse.errors import BadInput
from wse.serving.acceptance import Acceptance

LONGEST_DRAFT: Final = 64


def tokens_per_pass(acceptance: float, draft_tokens: int) -> float:
    """Tokens that a pass yields on average when each of ``draft_tokens`` is accepted with one probability.

    (1 - a^(n + 1)) / (1 - a), which is the sum of a^i for i from 0 to n (arXiv 2211.17192, equation 1). It gives long
    drafts too much: measured acceptance falls along a draft (`wse.serving.acceptance`).

    Raises:
        BadInput: a probability outside 0 to 1, or a draft below 0 or above 64 tokens.
    """
    _check(draft_tokens, acceptance)
    return tokens_by_position([acceptance] * draft_tokens)


def tokens_by_position(acceptances: Sequence[float]) -> float:
    """The same with a probability for each position of the draft, given that those before it were accepted.

    1 + a1 + a1 a2 + ...

    >>> tokens_by_position([0.5, 0.5])
    1.75
    """
    _check(len(acceptances), *acceptances)
    return math.fsum(accumulate(acceptances, mul, initial=1.0))


def speed_up(yielded_tokens: float, draft_tokens: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """How many times faster tokens come than one by one.

    E / (n c + v) for ``yielded_tokens`` E a pass, ``draft_tokens`` n, ``draft_cost`` c: the time of drafting one token
    over that of a plain pass, and ``verify_cost`` v: the time of the pass that checks n + 1 tokens over that of a plain
    one. In the paper (arXiv 2211.17192, theorem 3.8) v is 1, because a pass on a GPU waits for weights whatever the
    number of tokens; where weights lie in SRAM it is more.

    Raises:
        BadInput: a cost that is below 0, no number, or nothing in all.
    """
    time = draft_tokens * draft_cost + verify_cost
    if not (draft_cost >= 0 and verify_cost >= 0 and 0 < time < math.inf):
        message = (
            f"draft cost {draft_cost}, verify cost {verify_cost}: give times over that of a plain pass, of at least 0, "
            "and not both 0"
        )
        raise BadInput(message)
    return yielded_tokens / time


def best_draft(
    curve: Acceptance,
    draft_cost: float,
    verify_cost: Callable[[int], float] = lambda tokens: 1.0,
    longest: int | None = None,
) -> tuple[int, float]:
    """The draft length with the largest `speed_up` on a curve, and that speed-up; (0, 1.0) where none gains.

    ``verify_cost`` gives the cost of a pass over so many tokens, the drafted ones and one more. Drafts up to
    ``longest`` tokens are tried, by default up to the longest that the curve was measured at.
    """
    lengths = range(1, (max(curve.draft_tokens) if longest is None else longest) + 1)
    tried = [(speed_up(curve.at(n), n, draft_cost, verify_cost(n + 1)), n) for n in lengths]
    gain, length = max(tried, key=lambda each: (each[0], -each[1]), default=(1.0, 0))
    return (length, gain) if gain > 1 else (0, 1.0)


def _check(draft_tokens: int, *acceptances: float) -> None:
    if not 0 <= draft_tokens <= LONGEST_DRAFT:
        message = f"draft of {draft_tokens} tokens: give a number from 0 to {LONGEST_DRAFT}"
        raise BadInput(message)
    for acceptance in acceptances:
        if not 0 <= acceptance <= 1:
            message = f"acceptance {acceptance}: give a probability from 0 to 1"
            raise BadInput(message)
