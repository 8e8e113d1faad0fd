"""Traits of a mixture of experts: the number of experts, and how a router chooses among them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: feed-forward blocks, only a few of which are used by each token.

    The router of a layer computes a score for each expert. The ``active`` experts with the best
    scores are selected, and their outputs are added with weights derived from the scores.

    Attributes:
        count: Number of experts.
        active: Number of experts per token.
        ffn_size: Width of an expert.
        scoring: Function that turns router outputs into scores: ``softmax`` or ``sigmoid``.
        normalised: Whether the weights of the selected experts are divided by their sum.
        mixer_tolerance: If not None, experts are weighted by a sparse mixer (arXiv 2409.12136,
            without its random choices in training). With the outputs x of the router, the weight of
            an expert is its softmax over the experts that have not been selected before it and for
            which max x - x is at most 2 * tolerance * max(|x|, max x). Weights are not normalised.
        scale: Factor applied to the weights last.
        groups: Number of equal-sized groups of experts.
        chosen_groups: Number of groups from which experts may be selected: the groups with the
            largest sums of their two best scores.
        correction: Whether a trained value per expert is added to the scores for the selection. It
            does not affect the weights.
        router_bias: Whether the router adds a trained vector.
        weighs_input: Whether the weights multiply the input of an expert instead of its output.
        shared_size: Width of the shared expert, a block that every token uses; 0 if there is none.
        shared_gate: Whether the output of the shared expert is multiplied by the sigmoid of a
            trained projection of its input.
        separate_norms: Whether router, experts and shared expert normalise the input of the block
            separately (the router: to Euclidean length 1), and the outputs of the experts and of
            the shared expert are normalised before they are added up. All gains are trained.
        expert_scale: Whether the weight of each expert is multiplied by a trained number.
    """

    count: int
    active: int
    ffn_size: int
    scoring: str = "softmax"
    normalised: bool = True
    mixer_tolerance: float | None = None
    scale: float = 1.0
    groups: int = 1
    chosen_groups: int = 1
    correction: bool = False
    router_bias: bool = False
    weighs_input: bool = False
    shared_size: int = 0
    shared_gate: bool = False
    separate_norms: bool = False
    expert_scale: bool = False
