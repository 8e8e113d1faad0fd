"""Speculative decoding: what drafting tokens ahead and checking them in one pass of the model gains.

A draft proposes some tokens; one pass of the model accepts those up to the first that it would not have chosen, and
gives one token of its own. Source: Leviathan, Kalman, Matias, Fast inference from transformers via speculative
decoding, ICML 2023, arXiv 2211.17192.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wse.errors import BadInput
from wse.serving.acceptance import Acceptance


def speed_up(yielded_tokens: float, draft_tokens: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """The speed-up of drafts: how many times faster tokens come than one by one.

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
    verify_cost: Callable[[int], float],
) -> tuple[int, float]:
    """The draft length with the largest `speed_up` on a curve, and that speed-up; (0, 1.0) where none gains.

    ``verify_cost`` gives the cost of a pass over so many tokens, the drafted ones and one more. Drafts are tried up to
    the longest that the curve was measured at.
    """
    lengths = range(1, max(curve.draft_tokens) + 1)
    tried = [(speed_up(curve.at(n), n, draft_cost, verify_cost(n + 1)), n) for n in lengths]
    gain, length = max(tried, key=lambda each: (each[0], -each[1]))
    return (length, gain) if gain > 1 else (0, 1.0)
