"""Drafts: the passes that answers take where each verifies drafted tokens, drawn by how often these are accepted.

A pass over a draft of n tokens yields those up to the first that is not accepted, and one of the model's own (Leviathan
et al., arXiv 2211.17192): more than k tokens with probability a1 a2 ... ak, where ``a`` are acceptances by position.
What goes beyond the end of an answer is dropped. By Wald's identity the passes of an answer times the mean of a pass
are on average its tokens and those dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wse.arrays import F64, I64
from wse.serving.simulation.workload import DRAFTS, Workload, random_stream

MOST_DRAWS: Final = 1 << 22
"""Passes that are drawn at a time."""


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """Drafts of one length.

    Attributes:
        acceptances: By position: how often a drafted token is accepted where those before it are.
        seed: Of what is drawn.
    """

    acceptances: tuple[float, ...]
    seed: int = 0

    @cached_property
    def tokens_per_pass(self) -> float:
        """The mean tokens of a pass: 1 + a1 + a1 a2 + ..."""
        return 1.0 + float(self._more_than.sum())

    def passes(self, tokens: I64) -> I64:
        """int64 ``[requests]``: the passes that so many ``tokens`` of each request take, drawn."""
        random, left = random_stream(self.seed, DRAFTS), tokens.copy()
        passes = np.zeros(len(tokens), np.int64)
        going = np.flatnonzero(left > 0)
        while len(going):
            expected = math.ceil(left[going].max() / self.tokens_per_pass)
            width = max(1, min(expected, MOST_DRAWS // len(going)))
            yielded = self._yields(random.random((len(going), width))).cumsum(axis=1)
            is_over = yielded >= left[going, None]
            ends = is_over[:, -1]
            passes[going] += np.where(ends, is_over.argmax(axis=1) + 1, width)
            left[going] -= yielded[:, -1]
            going = going[~ends]
        return passes

    @cached_property
    def _more_than(self) -> F64:
        """Probabilities of more than 1, 2 and so on tokens."""
        return np.asarray(np.cumprod(self.acceptances), np.float64)

    def _yields(self, drawn: F64) -> I64:
        """Return the tokens of passes, of numbers that are drawn evenly from 0 to 1."""
        tokens = np.ones(drawn.shape, np.int64)
        for probability in self._more_than.tolist():
            tokens += drawn < probability
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPasses:
    """The decode passes of answers, and contexts counted in them.

    Attributes:
        tokens_per_pass: Mean tokens of a pass; 1 without drafts.
        passes: By request: those that its answer takes behind the first token.
        contexts: By request: its prompt, as so many passes would yield it, rounded.
    """

    tokens_per_pass: float
    passes: list[int]
    contexts: list[int]


def answer_passes(workload: Workload, drafts: Drafts | None) -> AnswerPasses:
    """Return the passes of a workload's answers, one a token without drafts."""
    further, prompts = workload.new_tokens - 1, workload.prompt_tokens
    if drafts is None:
        return AnswerPasses(tokens_per_pass=1.0, passes=further.tolist(), contexts=prompts.tolist())
    contexts = np.rint(prompts / drafts.tokens_per_pass).astype(np.int64)
    return AnswerPasses(
        tokens_per_pass=drafts.tokens_per_pass, passes=drafts.passes(further).tolist(), contexts=contexts.tolist()
    )
