"""Trees of drafted tokens: the best one of so many nodes, and the best size and depth for a machine.

A draft that is a tree has several guesses at a position: a pass verifies all of them, and accepts the longest path from
the root that the model would have taken. Source: Chen et al., Sequoia: scalable, robust, and hardware-aware speculative
decoding, arXiv 2402.12374, sections 3.1 and 3.3.

``shares`` are acceptances by position and choice: ``shares[d][k]`` is the probability that the draft's choice k (0: the
likeliest) at position d behind the root is accepted, where its parent is. A node's value is the product along its path.
Past the last position, or choice, nothing is accepted.
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

Shares = tuple[tuple[float, ...], ...]
"""Acceptances by position and choice."""

ROOT: Final = -1
"""The parent of nodes at the first position: the token that the model itself gave last."""

MOST_NODES: Final = 64
"""Nodes of a tree that are requested at most: the work grows with their square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTree:
    """A tree of drafted tokens.

    Attributes:
        parents: The parent of each node, by its place among the nodes, before its children; ROOT at the first position.
        choices: Which of the draft's choices behind its parent each node is; 0: the likeliest.
        tokens_per_pass: Tokens that a pass over it yields, the model's own among them.
    """

    parents: tuple[int, ...]
    choices: tuple[int, ...]
    tokens_per_pass: float

    @property
    def positions(self) -> tuple[int, ...]:
        """The position of each node behind the root, from 1."""
        found: list[int] = []
        for parent in self.parents:
            found.append(1 if parent == ROOT else found[parent] + 1)
        return tuple(found)

    @property
    def depth(self) -> int:
        """Its longest path."""
        return max(self.positions, default=0)

    @property
    def draft_widths(self) -> tuple[int, ...]:
        """Tokens of each pass of the draft, one for each position: the nodes before it that have children."""
        positions = (0, *self.positions)  # of the root, then of nodes
        return tuple(Counter(positions[parent + 1] for parent in set(self.parents))[d] for d in range(self.depth))


def best_tree(shares: Sequence[Sequence[float]], nodes: int, depth: int | None = None) -> DraftTree:
    """Return the tree of at most so many nodes, and no longer paths than ``depth``, that yields most.

    By dynamic programming, as in section 3.1 of the paper, with acceptances that may differ from position to position:

    1. ``of_node(d, n)`` is the most that a node at position d yields with n nodes, itself one of them: 1, and what its
       children yield with the other n - 1.
    2. ``of_children(d, k, m)`` is the most that the choices from k on at position d yield with m nodes: of the first
       of them gets j, times its share, and the others the rest. A choice is not left out for a later one, which is
       accepted less often.
    3. The root has all nodes as children. Who got how many is read back from the best j.

    Raises:
        BadInput: a share is outside of 0 to 1, the choices of a position make more than 1 together, or there are no
            nodes or more than `MOST_NODES`.
    """
    check_shares(shares)
    if not 1 <= nodes <= MOST_NODES:
        message = f"tree of {nodes} nodes: give 1 to {MOST_NODES}"
        raise BadInput(message)
    deepest = len(shares) if depth is None else min(depth, len(shares))

    @cache
    def of_node(position: int, count: int) -> float:  # 1
        return 1.0 + of_children(position + 1, 0, count - 1)[0]

    @cache
    def of_children(position: int, choice: int, count: int) -> tuple[float, int]:  # 2
        if position > deepest or choice == len(shares[position - 1]) or not count:
            return 0.0, 0
        share = shares[position - 1][choice]
        return max(
            (share * of_node(position, first) + of_children(position, choice + 1, count - first)[0], first)
            for first in range(1, count + 1)
        )

    parents, choices = list[int](), list[int]()

    def add_children(parent: int, position: int, count: int) -> None:  # 3
        choice = 0
        while (found := of_children(position, choice, count))[0] > 0:
            parents.append(parent)
            choices.append(choice)
            add_children(len(parents) - 1, position + 1, found[1] - 1)
            count, choice = count - found[1], choice + 1

    add_children(ROOT, 1, nodes)
    return DraftTree(parents=tuple(parents), choices=tuple(choices), tokens_per_pass=of_node(0, nodes + 1))


def fastest_tree(
    shares: Sequence[Sequence[float]], speed_up: Callable[[DraftTree], float], sizes: Iterable[int]
) -> tuple[DraftTree | None, float]:
    """Return the tree with the largest speed-up, of the best ones of each size and depth, and its speed-up.

    Section 3.3 of the paper.

    Args:
        shares: Acceptances by position and choice.
        speed_up: Returns how many times faster tokens come with a tree than without drafts.
        sizes: Numbers of nodes, rising; they are tried until two in a row gain less than a smaller one.

    Returns:
        The tree and its speed-up; (None, 1.0) where no tree gains.
    """
    fastest, gain, less = None, 1.0, 0
    for nodes in sizes:
        trees = dict.fromkeys(best_tree(shares, nodes, depth) for depth in range(1, len(shares) + 1))
        found, best = max(((tree, speed_up(tree)) for tree in trees), key=lambda pair: pair[1])
        less = 0 if best > gain else less + 1
        if best > gain:
            fastest, gain = found, best
        if less == 2 and fastest is not None:
            break
    return fastest, gain


def shares_of(curve: Acceptance, choices: Sequence[float]) -> Shares:
    """Acceptances by position and choice, of a curve that has those of the likeliest choice.

    A position's acceptance is what its token adds to those of a pass over what the one before adds. Of what the
    choices before did not catch, a further one catches the same part as in ``choices``, the shares of a draft of which
    they were measured.
    """
    yielded = [0.0, *(curve.at(length) for length in range(max(curve.draft_tokens) + 1))]
    added = [after - before for before, after in pairwise(yielded)]
    firsts = [min(1.0, after / before) if before > 0 else 0.0 for before, after in pairwise(added)]
    return tuple(with_choices(first, choices) for first in firsts)


def with_choices(first: float, choices: Sequence[float]) -> tuple[float, ...]:
    """The shares of the choices at a position whose likeliest one is accepted so often, as `shares_of` has them."""
    found, missed = [first], 1.0 - choices[0]
    for measured in choices[1:]:
        found.append((1.0 - sum(found)) * measured / missed)
        missed -= measured
    return tuple(found)


def check_shares(shares: Sequence[Sequence[float]]) -> None:
    """Check acceptances by position and choice.

    Raises:
        BadInput: there are none, one is outside of 0 to 1, or those of a position make more than 1 together.
    """
    if not shares or not all(shares):
        message = "acceptance: there is none; give a share from 0 to 1 for each position"
        raise BadInput(message)
    for position, choices in enumerate(shares, start=1):
        for share in choices:
            if not 0.0 <= share <= 1.0:
                message = f"acceptance {share:g} at position {position}: give a share from 0 to 1"
                raise BadInput(message)
        if sum(choices) > 1.0 + 1e-9:
            message = (
                f"acceptances of the choices at position {position}: {sum(choices):g} together; one alone can be "
                "accepted, so give at most 1"
            )
            raise BadInput(message)
