"""Trees of draft tokens: the best tree of a given size, and the fastest tree for a machine.

A tree has several candidate tokens per position. A pass verifies all of them and accepts the
longest path from the root that the model would have generated. Source: Chen et al., Sequoia:
scalable, robust, and hardware-aware speculative decoding, arXiv 2402.12374, sections 3.1 and 3.3.

``acceptances[d][k]`` is the acceptance probability of the draft's choice k at position d after the
root, given that its parent is accepted. Choice 0 is the most likely. The value of a node is the product
along its path. Beyond the last position or choice, nothing is accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from wse.errors import BadInput
from wse.serving.drafts.speculation import Acceptance

ChoiceAcceptances = tuple[tuple[float, ...], ...]
"""Acceptance probabilities by position and choice."""

ROOT: Final = -1
"""Parent of nodes at the first position: the last token that the model itself generated."""

MAX_NODES: Final = 64
"""Maximum number of nodes in a tree. The computation grows with the square of this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTree:
    """A tree of draft tokens, which may propose several alternative tokens at the same position.

    The root is the last token of the text. It is not a node of the tree.

    Attributes:
        parents: For each node, the index of its parent, which is smaller than its own; ROOT for
            nodes at the first position.
        choices: For each node, the rank of its token among the draft's choices after the parent; 0
            is the most likely token.
        tokens_per_pass: Tokens that a verification pass over the tree yields on average, including
            the model's own token.
    """

    parents: tuple[int, ...]
    choices: tuple[int, ...]
    tokens_per_pass: float

    @property
    def positions(self) -> tuple[int, ...]:
        """Distance of each node from the root; 1 for the children of the root."""
        positions: list[int] = []
        for parent in self.parents:
            positions.append(1 if parent == ROOT else positions[parent] + 1)
        return tuple(positions)

    @property
    def depth(self) -> int:
        """Length of the longest path from the root."""
        return max(self.positions, default=0)

    @property
    def draft_widths(self) -> tuple[int, ...]:
        """Number of tokens in each of the draft passes that create the tree.

        Draft pass d processes the tokens at distance d from the root, if they have children. The
        first pass (d = 0) processes the root itself.
        """
        positions = (0, *self.positions)  # of the root, then of nodes
        return tuple(Counter(positions[parent + 1] for parent in set(self.parents))[d] for d in range(self.depth))


def best_tree(acceptances: Sequence[Sequence[float]], nodes: int, depth: int | None = None) -> DraftTree:
    """Return the tree of limited size and depth that yields the most tokens per pass.

    This is the dynamic programme of Sequoia (arXiv 2402.12374, section 3.1), with probabilities
    that may differ between positions.

    Args:
        acceptances: Acceptance probability of each choice at each position, most likely choice
            first.
        nodes: Maximum number of nodes, from 1 to `MAX_NODES`.
        depth: Maximum length of a path; None for the number of positions in ``acceptances``.

    Raises:
        BadInput: A probability is outside 0 to 1, the choices at a position add up to more than 1,
            or ``nodes`` is out of range.
    """
    check_acceptances(acceptances)
    if not 1 <= nodes <= MAX_NODES:
        raise BadInput(f"tree of {nodes} nodes: give 1 to {MAX_NODES}")
    yields = _Yields(acceptances, len(acceptances) if depth is None else min(depth, len(acceptances)))
    parents, choices = list[int](), list[int]()

    def add_children(parent: int, position: int, count: int) -> None:
        """Add the best ``count`` descendants to a node: those that yield the most tokens.

        Args:
            parent: Index of the node.
            position: Distance of its children from the root.
            count: Number of descendants.
        """
        choice = 0
        while (best := yields.children(position, choice, count))[0] > 0:
            parents.append(parent)
            choices.append(choice)
            add_children(len(parents) - 1, position + 1, best[1] - 1)
            count, choice = count - best[1], choice + 1

    add_children(ROOT, 1, nodes)
    return DraftTree(parents=tuple(parents), choices=tuple(choices), tokens_per_pass=yields.node(0, nodes + 1))


class _Yields:
    """Expected number of accepted tokens of the best draft tree, by its number of nodes.

    A draft tree proposes several alternative tokens (choices) per position. Results are cached.

    Args:
        acceptances: Acceptance probability of each choice at each position.
        max_depth: Maximum distance of a node from the root.
    """

    def __init__(self, acceptances: Sequence[Sequence[float]], max_depth: int) -> None:
        self._acceptances, self._max_depth = acceptances, max_depth
        self.children = cache(self._children)

    def node(self, position: int, count: int) -> float:
        """Return how many tokens are accepted on average from a node and its descendants.

        The node itself is accepted and counts as 1. Its descendants are arranged in the best way.

        Args:
            position: Distance of the node from the root.
            count: Number of nodes, including the node itself and its descendants.
        """
        return 1.0 + self.children(position + 1, 0, count - 1)[0]

    def _children(self, position: int, choice: int, count: int) -> tuple[float, int]:
        """Return how many tokens are accepted on average below an accepted node, in the best case.

        The ``count`` nodes below it are divided between two groups: the child with the choice
        ``choice`` and its descendants, and the children with later choices. The expected number of
        accepted tokens from a child is multiplied by its acceptance probability.

        Args:
            position: Distance of the children from the root.
            choice: Index of the first choice that is not used yet; no choice is skipped, because
                later choices are never more likely.
            count: Number of nodes to distribute.

        Returns:
            The expected number, and the number of nodes in the first group.
        """
        if position > self._max_depth or choice == len(self._acceptances[position - 1]) or not count:
            return 0.0, 0
        acceptance = self._acceptances[position - 1][choice]
        return max(
            (acceptance * self.node(position, first) + self.children(position, choice + 1, count - first)[0], first)
            for first in range(1, count + 1)
        )


def fastest_tree(
    acceptances: Sequence[Sequence[float]], speed_up: Callable[[DraftTree], float], sizes: Iterable[int]
) -> tuple[DraftTree | None, float]:
    """Return the tree with the largest speed-up among the best trees of each size and depth.

    Source: Sequoia, arXiv 2402.12374, section 3.3.

    Args:
        acceptances: Acceptance probability of each choice at each position.
        speed_up: Function that returns a tree's speed-up over decoding without drafts.
        sizes: Numbers of nodes to try, in ascending order. Once a tree is faster than decoding
            without drafts, the search stops after two consecutive sizes without an additional gain.

    Returns:
        The tree and its speed-up, or (None, 1.0) if no tree is faster than decoding without drafts.
    """
    best_so_far, best_speed_up, sizes_without_gain = None, 1.0, 0
    for nodes in sizes:
        trees = dict.fromkeys(best_tree(acceptances, nodes, depth) for depth in range(1, len(acceptances) + 1))
        tree_of_size, speed_up_of_size = max(((tree, speed_up(tree)) for tree in trees), key=lambda pair: pair[1])
        sizes_without_gain = 0 if speed_up_of_size > best_speed_up else sizes_without_gain + 1
        if speed_up_of_size > best_speed_up:
            best_so_far, best_speed_up = tree_of_size, speed_up_of_size
        if sizes_without_gain == 2 and best_so_far is not None:
            break
    return best_so_far, best_speed_up


def choice_acceptances(curve: Acceptance, choices: Sequence[float]) -> ChoiceAcceptances:
    """Return the acceptance probability of each choice at each position of a draft.

    A choice is one of the alternative tokens that a draft proposes at a position. The most likely
    choice at position p is accepted with probability g(p) / g(p - 1), at most 1, where g(p) is the
    mean number of tokens that position p adds to a pass. `with_choices` derives the probabilities
    of the other choices.

    Args:
        curve: Tokens per pass for each draft length, for a draft with one choice per position.
        choices: Measured probability of each choice of a draft, with the most likely choice first.
    """
    yields = [0.0, *(curve.at(length) for length in range(max(curve.draft_tokens) + 1))]
    added_tokens = [next_value - value for value, next_value in pairwise(yields)]
    first_choices = [min(1.0, next_value / value) if value > 0 else 0.0 for value, next_value in pairwise(added_tokens)]
    return tuple(with_choices(first, choices) for first in first_choices)


def with_choices(first: float, choices: Sequence[float]) -> tuple[float, ...]:
    """Return the acceptance probability of each choice at a position, most likely choice first.

    A choice is one of the alternative tokens that a draft proposes at the position. The probability
    that a choice is accepted, given that all earlier ones have failed, is taken from the measurement.
    The returned probabilities are without this condition. Each is at most that of the choice before
    it, because a draft proposes the most likely tokens first; a higher value is reduced.

    Args:
        first: Acceptance probability of the most likely choice at this position.
        choices: Measured probability of each choice, most likely choice first.
    """
    probabilities, missed_fraction = [first], 1.0 - choices[0]
    for measured_choice in choices[1:]:
        probability = (1.0 - sum(probabilities)) * measured_choice / missed_fraction
        probabilities.append(min(probability, probabilities[-1]))
        missed_fraction -= measured_choice
    return tuple(probabilities)


def check_acceptances(acceptances: Sequence[Sequence[float]]) -> None:
    """Raise an error if acceptance probabilities are invalid.

    Args:
        acceptances: Acceptance probability of each choice at each position.

    Raises:
        BadInput: A position has no choice, a probability is outside 0 to 1, or the probabilities at
            a position add up to more than 1.
    """
    if not acceptances or not all(acceptances):
        raise BadInput("acceptance: is empty; give a probability from 0 to 1 for each position")
    for position, choices in enumerate(acceptances, start=1):
        for acceptance in choices:
            if not 0.0 <= acceptance <= 1.0:
                raise BadInput(f"acceptance {acceptance:g} at position {position}: give a probability from 0 to 1")
        if sum(choices) > 1.0 + 1e-9:
            message = (
                f"acceptances of the choices at position {position}: {sum(choices):g} together; one alone can be "
                "accepted, so give at most 1"
            )
            raise BadInput(message)
