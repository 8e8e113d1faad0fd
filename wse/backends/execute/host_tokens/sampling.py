"""Sampling of the next token on the host, from logits received from the wafer.

The steps, their order and their meaning are the same as in Hugging Face transformers 5
(``transformers/generation/logits_process.py``, order of ``GenerationMixin._get_logits_processor``):
repetition penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Rule for choosing the next token. By default, the most likely token is chosen.

    Attributes:
        temperature: Divisor of the logits before a draw; 0 chooses the most likely token instead.
        top_k: Only tokens that are at least as likely as the k-th most likely one may be drawn; 0
            for no limit.
        top_p: Only the smallest set of most likely tokens with this total probability may be drawn;
            1 for no limit.
        min_p: Only tokens with at least this fraction of the highest probability may be drawn; 0
            for no limit.
        repetition_penalty: Divisor of the positive logits of tokens that occurred before; their
            negative logits are multiplied by it.
        seed: Seed of the random numbers.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    @property
    def on_host(self) -> bool:
        """True if the host must sample, so that logits have to leave the wafer.

        The wafer itself can only choose the most likely token, without a repetition penalty.
        """
        return self.temperature > 0 or self.repetition_penalty != 1.0


class Sampler:
    """Sampler of token ids for one sequence, reproducible from a seed.

    An id is drawn as the arg max of the scores plus one Gumbel variate per id. Each id then has the
    probability softmax(scores) (Gumbel, Statistical Theory of Extreme Values, 1954; Maddison et
    al., arXiv 1411.0030).

    The variate of an id depends only on the seed and the index of the draw. On different meshes,
    the logits of a model may differ in their last bits. This changes a draw only if the two highest
    sums are almost equal, or if the id with the highest sum moves across a limit such as top-k.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int] = ()) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(sampling.seed)
        self._seen = dict.fromkeys(prompt)

    def draw(self, logits: npt.NDArray[np.float32]) -> int:
        """Return the next id for logits float32 ``[vocabulary]``; -1 if a logit is not finite."""
        if not np.isfinite(logits).all():
            return -1
        scores = adjusted_scores(logits, list(self._seen), self._sampling)
        if self._sampling.temperature > 0:
            scores += self._random.gumbel(size=len(scores))
        token = int(scores.argmax())
        self._seen[token] = None
        return token

    def accept(
        self,
        logits: npt.NDArray[np.float32],
        draft: Sequence[int],
        draft_probabilities: Sequence[Scores] | None = None,
    ) -> list[int]:
        """Decide which tokens of a draft are accepted, and draw the token that follows them.

        The ids have the same distribution as if they were drawn one by one (Leviathan, Kalman,
        Matias, arXiv 2211.17192, algorithm 1). Let p be the model's probabilities. Let q be the
        probabilities from which the draft was drawn.

        1. A draft id is accepted with probability min(1, p / q). Otherwise the next id is drawn
           from the normalised max(0, p - q), and the remaining draft ids are dropped.
        2. After the last draft id, one more id is drawn from p.

        Args:
            logits: float32 ``[n + 1, vocabulary]``, finite: the logits after the token before the
                draft, and after each of its n ids.
            draft: The n draft ids.
            draft_probabilities: The distribution q for each draft id, float64 ``[vocabulary]``.
                None if the draft is deterministic, so that q is 1 for every draft id.

        Returns:
            The accepted draft ids, followed by one more id.
        """
        ids: list[int] = []
        for index, token in enumerate(draft):
            p = self._probabilities(logits[index])
            q = np.zeros_like(p)
            if draft_probabilities is None:
                q[token] = 1.0
            else:
                q[:] = draft_probabilities[index]
            if self._random.random() * q[token] >= p[token]:  # 1
                rest = np.maximum(p - q, 0.0)
                return [*ids, self._draw_from(rest if rest.any() else p)]
            self._seen[token] = None
            ids.append(token)
        return [*ids, self._draw_from(self._probabilities(logits[len(ids)]))]  # 2

    def _probabilities(self, logits: npt.NDArray[np.float32]) -> Scores:
        """Return the probability that each id is drawn next, given the ids so far."""
        return probabilities(logits, list(self._seen), self._sampling)

    def _draw_from(self, weights: Scores) -> int:
        """Draw an id with probability proportional to its weight, and remember the id."""
        token = draw(weights, self._random)
        self._seen[token] = None
        return token

    def skip(self, token: int, vocabulary: int) -> None:
        """Update the state of the sampler as if it had just drawn ``token``.

        The state consists of the random numbers and the ids drawn so far.

        Args:
            token: The id.
            vocabulary: Number of ids.
        """
        if self._sampling.temperature > 0:
            self._random.gumbel(size=vocabulary)
        self._seen[token] = None


def draw(weights: Scores, random: np.random.Generator) -> int:
    """Return a random id, drawn with probability proportional to its weight.

    Args:
        weights: float64 ``[vocabulary]``, at least 0, and not all 0.
        random: Source of random numbers.
    """
    with np.errstate(divide="ignore"):
        return int((np.log(weights) + random.gumbel(size=len(weights))).argmax())


def probabilities(logits: npt.NDArray[np.float32], text_ids: list[int], sampling: Sampling) -> Scores:
    """Return the probability that each id is drawn, as float64 ``[vocabulary]``.

    At temperature 0, the most likely id has the probability 1.

    Args:
        logits: float32 ``[vocabulary]``.
        text_ids: Distinct ids in the prompt and the text so far, for the repetition penalty.
        sampling: Rule for choosing the next token.
    """
    scores = adjusted_scores(logits, text_ids, sampling)
    if sampling.temperature == 0:
        one_hot = np.zeros_like(scores)
        one_hot[scores.argmax()] = 1.0
        return one_hot
    weights: Scores = np.exp(scores)
    weights /= weights.sum()
    return weights


def adjusted_scores(logits: npt.NDArray[np.float32], text_ids: list[int], sampling: Sampling) -> Scores:
    """Return the logits after all sampling rules, float64 ``[vocabulary]``.

    The next id is drawn from the softmax of these scores. The highest score is 0, and excluded ids
    have -inf. At temperature 0, the result is the logits after the repetition penalty.

    Args:
        logits: float32 ``[vocabulary]``.
        text_ids: Distinct ids in the prompt and the text so far, for the repetition penalty.
        sampling: Rule for choosing the next token.
    """
    scores: Scores = logits.astype(np.float64)
    if sampling.repetition_penalty != 1.0:
        old, penalty = scores[text_ids], sampling.repetition_penalty
        scores[text_ids] = np.where(old < 0, old * penalty, old / penalty)
    if sampling.temperature == 0:
        return scores
    with np.errstate(over="ignore"):  # with a tiny temperature, all scores except the best may become -inf
        scores = (scores - scores.max()) / sampling.temperature
    if 0 < sampling.top_k < len(scores):
        scores[scores < np.partition(scores, -sampling.top_k)[-sampling.top_k]] = -np.inf
    if sampling.top_p < 1:
        _keep_top_p(scores, sampling.top_p)
    if sampling.min_p > 0:
        scores[np.exp(scores) < sampling.min_p] = -np.inf
    return scores


def _keep_top_p(scores: Scores, top_p: float) -> None:
    """Exclude the least likely ids, whose total probability is at most 1 - ``top_p``, in place.

    The score of an excluded id becomes -inf. The most likely id is never excluded.
    """
    rising = np.argsort(scores, kind="stable")
    likelihoods = np.exp(scores[rising])
    is_excluded = likelihoods.cumsum() <= (1 - top_p) * likelihoods.sum()
    is_excluded[-1] = False
    scores[rising[is_excluded]] = -np.inf
