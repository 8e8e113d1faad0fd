"""RoutingDistribution: how tokens are assumed to select experts when no token is executed.

A token selects ``active`` of the experts in each layer with experts. The default assumption,
`EVEN`, distributes the (token, expert) pairs of a pass over the experts as evenly as possible. All
other distributions have a list of selections per layer. The tokens of a pass are drawn from this
list independently, so the loads include both the popularity of experts and chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import numpy as np

from wse.arrays import F64, I32, I64

ZIPF_TOKENS: Final = 4096
"""Number of tokens whose selections are drawn for a Zipf distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingDistribution:
    """Assumed distribution of the experts that tokens select, for each layer with experts.

    Distributions with the same name, layers and digest are equal.

    Attributes:
        name: Name for reports, such as ``even`` or ``zipf:1``.
        layers: Indices of the layers with experts, in ascending order; empty if even.
        probabilities: float64 ``[layers, experts]``: probability that a token selects an expert.
            Each row adds up to the number of experts per token.
        choices: int32 ``[layers, tokens, active]``: experts that each token selects. The tokens of
            a pass are drawn from these tokens.
        digest: SHA-256 hash of the two arrays in hex, computed if it is empty.
    """

    name: str
    layers: tuple[int, ...] = ()
    probabilities: F64 = field(default_factory=lambda: np.zeros((0, 0)), compare=False)
    choices: I32 = field(default_factory=lambda: np.zeros((0, 0, 0), np.int32), compare=False)
    digest: str = ""

    def __post_init__(self) -> None:
        """Compute the digest."""
        if not self.digest:
            arrays = (np.ascontiguousarray(array).tobytes() for array in (self.probabilities, self.choices))
            object.__setattr__(self, "digest", sha256(b"".join(arrays)).hexdigest())

    @property
    def is_even(self) -> bool:
        """True if (token, expert) pairs are distributed over the experts as evenly as possible."""
        return not self.layers

    def loads(self, layer: int, tokens: int) -> I64:
        """Return the number of tokens that each expert of a layer processes in a sample pass.

        The tokens of the pass are drawn from ``choices`` with a fixed seed, so equal arguments give
        equal results. A pass with more tokens contains all tokens of a pass with fewer tokens.

        Args:
            layer: Index of the layer.
            tokens: Number of tokens in the pass.

        Returns:
            int64 ``[experts]``.
        """
        rows = np.random.default_rng(layer).integers(self.choices.shape[1], size=tokens)
        return np.bincount(self.choices_of(layer)[rows].ravel(), minlength=self.probabilities.shape[1])

    def choices_of(self, layer: int) -> I32:
        """Return the experts that each token selects in a layer, int32 ``[tokens, active]``.

        If there are no selections for the layer, those for the next layer are used. This occurs
        when a reduced model is compiled.
        """
        row = min(int(np.searchsorted(self.layers, layer)), len(self.layers) - 1)
        return np.asarray(self.choices[row])

    def unused_fractions(self, tokens: float) -> F64:
        """Return, for each expert, the probability that no token of a pass selects it.

        Tokens select independently of each other, so the probability is (1 - p) ** tokens.

        Args:
            tokens: Number of tokens in the pass.

        Returns:
            float64 ``[layers, experts]``.
        """
        return np.asarray((1 - self.probabilities) ** tokens)


EVEN: Final = RoutingDistribution(name="even")
"""Routing that distributes (token, expert) pairs over the experts as evenly as possible."""


def expected_experts(count: int, active: int, tokens: float, routing: RoutingDistribution = EVEN) -> float:
    """Return the expected number of experts per layer that the tokens of a pass use.

    If each token selects k of n experts independently and uniformly, the number is n (1 - (1 - k/n)
    ^ tokens). For other distributions, it is the mean over all layers.

    Args:
        count: Number of experts in the layer.
        active: Number of experts that each token selects.
        tokens: Number of tokens in the pass.
        routing: How tokens select experts; with `EVEN`, uniformly.

    >>> expected_experts(128, 4, 1), round(expected_experts(128, 4, 64), 1)
    (4.0, 111.2)
    """
    if active == count or tokens == 1:
        return float(active)
    if routing.is_even:
        uniform_count: float = count * (1 - (1 - active / count) ** tokens)
        return uniform_count
    return count - float(routing.unused_fractions(tokens).sum(axis=1).mean())


def measured_routing(name: str, layers: tuple[int, ...], choices: I32, count: int) -> RoutingDistribution:
    """Return the distribution of recorded selections.

    Args:
        name: Name of the distribution, for reports.
        layers: Indices of the layers.
        choices: int32 ``[layers, tokens, active]``: experts that each token selected.
        count: Number of experts per layer.
    """
    tokens = choices.shape[1]
    frequencies = [np.bincount(layer_choices.ravel(), minlength=count) / tokens for layer_choices in choices]
    return RoutingDistribution(name=name, layers=layers, probabilities=np.array(frequencies), choices=choices)


def zipf_routing(layers: tuple[int, ...], count: int, active: int, exponent: float) -> RoutingDistribution:
    """Return a distribution in which the popularity of experts follows Zipf's law.

    A token selects the expert of rank r with a probability proportional to r ** -exponent, but at
    most 1. Which expert has which rank is drawn for each layer with a fixed seed. The selections of
    a token are a systematic sample (Madow, Ann. Math. Stat. 20, 1949), which has exactly the
    given probabilities.

    Args:
        layers: Indices of the layers with experts.
        count: Number of experts per layer.
        active: Number of experts per token.
        exponent: The exponent; `EVEN` is returned for 0.
    """
    if exponent == 0 or active == count:
        return EVEN
    by_rank = rank_probabilities(count, active, exponent)
    random = np.random.default_rng(0)
    # 1. Put the ranks of each token in a random order, on a line on which a rank is as long as its probability.
    order = np.argsort(random.random((ZIPF_TOKENS, count)), axis=1)
    ends = by_rank[order].cumsum(axis=1)
    ends[:, -1] = active
    # 2. Select the ranks that contain the points u, u + 1, u + 2, ...
    points_before = np.ceil(np.pad(ends, ((0, 0), (1, 0))) - random.random((ZIPF_TOKENS, 1))).clip(0, active)
    is_selected = np.diff(points_before, axis=1) > 0
    ranks = order[is_selected].reshape(ZIPF_TOKENS, active)
    # 3. Assign an expert to each rank.
    expert_of_rank = np.array([random.permutation(count) for _ in layers], np.int32)
    probabilities = np.empty((len(layers), count))
    np.put_along_axis(probabilities, expert_of_rank, by_rank[None], axis=1)
    return RoutingDistribution(
        name=f"zipf:{exponent:g}", layers=layers, probabilities=probabilities, choices=expert_of_rank[:, ranks]
    )


def rank_probabilities(count: int, active: int, exponent: float) -> F64:
    """Return the probability that a token selects the expert of each rank, from the most popular.

    The probabilities are proportional to rank ** -exponent, limited to 1, and add up to ``active``.

    Args:
        count: Number of experts.
        active: Number of experts per token, less than ``count``.
        exponent: Exponent of Zipf's law, at least 0.

    Returns:
        float64 ``[count]``.
    """
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    sums = weights[::-1].cumsum()[::-1]
    # The first `certain` ranks have probability 1, and the others share the rest.
    certain = next(n for n in range(active) if (active - n) * weights[n] <= sums[n])
    return np.concatenate([np.ones(certain), (active - certain) * weights[certain:] / sums[certain]])
