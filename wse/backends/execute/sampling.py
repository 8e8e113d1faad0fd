"""Choosing the next token on the host, from logits that the wafer sent out.

Steps, order and meaning are those of Hugging Face transformers 5 (``transformers/generation/logits_process.py``,
order of ``GenerationMixin._get_logits_processor``): repetition penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The rule by which the next token is chosen; the defaults take the likeliest.

    Attributes:
        temperature: What logits are divided by before a draw; 0 takes the likeliest token instead.
        top_k: Only tokens at least as likely as the k-th likeliest may be drawn; 0 for no such limit.
        top_p: Only the likeliest tokens, as few as have this probability together; 1 for no such limit.
        min_p: Only tokens at least this times as likely as the likeliest; 0 for no such limit.
        repetition_penalty: What divides the logits of tokens seen before, or multiplies them where they are negative.
        seed: Of the draws.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    @property
    def on_host(self) -> bool:
        """True if the logits have to leave the wafer: for all except its own arg max."""
        return self.temperature > 0 or self.repetition_penalty != 1.0


class Sampler:
    """Draws the ids of one text, reproducibly from a seed.

    A draw is the arg max of scores plus one Gumbel variate an id, which has the probabilities softmax(scores)
    (Gumbel, Statistical Theory of Extreme Values, 1954; Maddison et al., arXiv 1411.0030). An id's variate depends on
    the seed and the number of the draw alone, so logits that differ in their last bits, as those of two meshes do,
    change a draw only where the two best sums are as close as that; an id at the brink of a limit matters if it wins.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int] = ()) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(sampling.seed)
        self._seen = dict.fromkeys(prompt)

    def draw(self, logits: npt.NDArray[np.float32]) -> int:
        """Return the next id, or -1 when a logit is not finite. float32 ``[vocabulary]``."""
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
        """Return the drafted ids that are accepted, and one more: together as if they were drawn one by one.

        Leviathan, Kalman, Matias, arXiv 2211.17192, algorithm 1; p are the model's probabilities, q the draft's:

        1. A drafted id is accepted with probability min(1, p / q); else the next id is drawn from max(0, p - q), over
           its sum, and what is behind it is given up.
        2. Behind the last drafted id one more is drawn from p.

        Args:
            logits: float32 ``[n + 1, vocabulary]``, finite: those that follow the token before the draft, and each of
                its n ids.
            draft: Its ids.
            draft_probabilities: float64 ``[vocabulary]`` q at each of them, from which they were drawn; None for a
                draft that could have been no other, whose q are 1.
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
        return probabilities(logits, list(self._seen), self._sampling)

    def _draw_from(self, weights: Scores) -> int:
        token = draw(weights, self._random)
        self._seen[token] = None
        return token

    def skip(self, token: int, vocabulary: int) -> None:
        """Advance the random numbers and the ids seen as if ``token`` had just been drawn out of ``vocabulary`` ids."""
        if self._sampling.temperature > 0:
            self._random.gumbel(size=vocabulary)
        self._seen[token] = None


def draw(weights: Scores, random: np.random.Generator) -> int:
    """Return an id with probability in proportion to its weight, float64 ``[vocabulary]`` of at least 0, not all 0."""
    with np.errstate(divide="ignore"):
        return int((np.log(weights) + random.gumbel(size=len(weights))).argmax())


def probabilities(logits: npt.NDArray[np.float32], text_ids: list[int], sampling: Sampling) -> Scores:
    """float64 ``[vocabulary]``: the probabilities that ids are drawn with; at temperature 0 the likeliest has all."""
    scores = adjusted_scores(logits, text_ids, sampling)
    if sampling.temperature == 0:
        likeliest = np.zeros_like(scores)
        likeliest[scores.argmax()] = 1.0
        return likeliest
    weights: Scores = np.exp(scores)
    weights /= weights.sum()
    return weights


def adjusted_scores(logits: npt.NDArray[np.float32], text_ids: list[int], sampling: Sampling) -> Scores:
    """float64 ``[vocabulary]``: scores whose softmax is drawn from, -inf where an id may not be; the best is 0.

    At temperature 0 the penalised logits. ``text_ids`` are those of prompt and text so far, each once.
    """
    scores: Scores = logits.astype(np.float64)
    if sampling.repetition_penalty != 1.0:
        old, penalty = scores[text_ids], sampling.repetition_penalty
        scores[text_ids] = np.where(old < 0, old * penalty, old / penalty)
    if sampling.temperature == 0:
        return scores
    with np.errstate(over="ignore"):  # a tiny temperature may send all except the best to -inf
        scores = (scores - scores.max()) / sampling.temperature
    if 0 < sampling.top_k < len(scores):
        scores[scores < np.partition(scores, -sampling.top_k)[-sampling.top_k]] = -np.inf
    if sampling.top_p < 1:
        _keep_top_p(scores, sampling.top_p)
    if sampling.min_p > 0:
        scores[np.exp(scores) < sampling.min_p] = -np.inf
    return scores


def _keep_top_p(scores: Scores, top_p: float) -> None:
    """Rule out the least likely ids, as many as have at most the probability 1 - ``top_p`` together; never the best."""
    rising = np.argsort(scores, kind="stable")
    likelihoods = np.exp(scores[rising])
    below = likelihoods.cumsum() <= (1 - top_p) * likelihoods.sum()
    below[-1] = False
    scores[rising[below]] = -np.inf
