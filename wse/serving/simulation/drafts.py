"""Drafts: random numbers of passes per answer if every pass verifies draft tokens.

A pass over n draft tokens yields the draft tokens before the first that is not accepted, and one
token from the model itself (Leviathan et al., arXiv 2211.17192). It yields more than k tokens with
probability a1 a2 ... ak, where ai is the acceptance probability at position i. Tokens beyond the
end of an answer are dropped. By Wald's identity, the mean number of passes times the mean tokens
per pass is the mean number of tokens, including dropped ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wse.arrays import F64, I64
from wse.serving.simulation.workload import DRAFTS, Workload, random_stream

MAX_DRAWS: Final = 1 << 22
"""Maximum number of passes that are drawn at a time."""


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """Random acceptance of draft tokens, with the same number of draft tokens in every pass.

    Attributes:
        acceptances: For each position, the probability that its draft token is accepted, given that
            all previous draft tokens were accepted.
        seed: Seed of the random numbers.
    """

    acceptances: tuple[float, ...]
    seed: int = 0

    @cached_property
    def tokens_per_pass(self) -> float:
        """Mean number of tokens per pass: 1 + a1 + a1 a2 + ...

        Here, a1, a2, ... are the ``acceptances``.
        """
        return 1.0 + float(self._more_than.sum())

    def passes(self, tokens: I64) -> I64:
        """Draw at random how many verification passes each request needs, int64 [requests].

        Args:
            tokens: Number of tokens that the passes of each request must yield, int64 [requests].
        """
        random, unfinished_tokens = random_stream(self.seed, DRAFTS), tokens.copy()
        passes = np.zeros(len(tokens), np.int64)
        unfinished = np.flatnonzero(unfinished_tokens > 0)
        while len(unfinished):
            expected_passes = math.ceil(unfinished_tokens[unfinished].max() / self.tokens_per_pass)
            width = max(1, min(expected_passes, MAX_DRAWS // len(unfinished)))
            yielded = self._yields(random.random((len(unfinished), width))).cumsum(axis=1)
            is_enough = yielded >= unfinished_tokens[unfinished, None]
            is_finished = is_enough[:, -1]
            passes[unfinished] += np.where(is_finished, is_enough.argmax(axis=1) + 1, width)
            unfinished_tokens[unfinished] -= yielded[:, -1]
            unfinished = unfinished[~is_finished]
        return passes

    @cached_property
    def _more_than(self) -> F64:
        """Probability that a verification pass yields more than n tokens, for n = 1, 2, 3, ..."""
        return np.asarray(np.cumprod(self.acceptances), np.float64)

    def _yields(self, random_numbers: F64) -> I64:
        """Convert random numbers to the number of tokens that each verification pass yields.

        Args:
            random_numbers: Uniform random numbers from 0 to 1, one per pass.

        Returns:
            int64, with the shape of ``random_numbers``.
        """
        tokens = np.ones(random_numbers.shape, np.int64)
        for probability in self._more_than.tolist():
            tokens += random_numbers < probability
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPasses:
    """Number of decode passes for the answer to each request of a workload.

    Attributes:
        tokens_per_pass: Mean number of tokens per pass; 1 without speculative decoding.
        passes: For each request, the number of passes after its first token.
        contexts: For each request, its context (prompt tokens) before the first pass, counted in
            passes: divided by ``tokens_per_pass`` and rounded.
    """

    tokens_per_pass: float
    passes: list[int]
    contexts: list[int]

    def extend(self, answers: AnswerPasses) -> None:
        """Append the pass counts and contexts of new requests to those of the earlier requests.

        Args:
            answers: Pass counts and contexts of the new requests. Its ``tokens_per_pass`` is
                ignored.
        """
        self.passes.extend(answers.passes)
        self.contexts.extend(answers.contexts)


def answer_passes(workload: Workload, drafts: Drafts | None) -> AnswerPasses:
    """Return the number of decode passes for each answer: one pass per token if ``drafts`` is None.

    Args:
        workload: Requests and the lengths of their answers.
        drafts: How many draft tokens are accepted; None without speculative decoding.
    """
    further_tokens, prompts = workload.new_tokens - 1, workload.prompt_tokens
    if drafts is None:
        return AnswerPasses(tokens_per_pass=1.0, passes=further_tokens.tolist(), contexts=prompts.tolist())
    contexts = np.rint(prompts / drafts.tokens_per_pass).astype(np.int64)
    return AnswerPasses(
        tokens_per_pass=drafts.tokens_per_pass,
        passes=drafts.passes(further_tokens).tolist(),
        contexts=contexts.tolist(),
    )
