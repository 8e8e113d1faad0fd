"""Trees of drafts: the best of all by brute force, chains as their curves have them, and speed-ups on machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import accumulate, product
from operator import mul

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from wse.errors import BadInput
from wse.serving.drafts.machine import DraftMachine
from wse.serving.drafts.speculation import (
    Acceptance,
    acceptance_by_position,
    best_draft,
    choice_shares,
    measured_curves,
)
from wse.serving.drafts.tree import (
    MAX_NODES,
    ROOT,
    DraftTree,
    Shares,
    best_tree,
    fastest_tree,
    shares_of,
    with_choices,
)


@st.composite
def falling_shares(draw: st.DrawFn) -> Shares:
    """Acceptances of 1 to 4 positions with 1 to 3 choices each, the likeliest first, of at most 1 together."""
    positions = []
    for _ in range(draw(st.integers(1, 4))):
        parts = sorted(draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3)), reverse=True)
        scale = draw(st.floats(0.1, 1.0)) / sum(parts)
        positions.append(tuple(part * scale for part in parts))
    return tuple(positions)


def forests(positions: Shares, depth: int, nodes: int) -> Iterator[float]:
    """What every forest of at most so many nodes yields, whose trees are the first choices of the first position."""
    if not positions or not depth:
        yield 0.0
        return
    for children in range(min(nodes, len(positions[0])) + 1):
        for sizes in product(range(1, nodes + 1), repeat=children):
            if sum(sizes) <= nodes:
                below = [list(forests(positions[1:], depth - 1, size - 1)) for size in sizes]
                for values in product(*below):
                    yield sum(share * (1 + v) for share, v in zip(positions[0], values, strict=False))


def value(tree: DraftTree, shares: Shares) -> float:
    """What a tree yields, from its nodes alone: each has the product of the shares on its path."""
    values: list[float] = []
    for parent, choice, position in zip(tree.parents, tree.choices, tree.positions, strict=True):
        values.append((1.0 if parent == ROOT else values[parent]) * shares[position - 1][choice])
    return 1 + sum(values)


@settings(max_examples=40, deadline=None)
@given(falling_shares(), st.integers(1, 5), st.integers(1, 4))
def test_no_tree_of_as_many_nodes_yields_more(shares: Shares, nodes: int, depth: int) -> None:
    tree = best_tree(shares, nodes, depth)
    assert tree.tokens_per_pass == pytest.approx(1 + max(forests(shares, depth, nodes)))
    assert tree.tokens_per_pass == pytest.approx(value(tree, shares))
    assert len(tree.parents) <= nodes
    assert tree.depth <= depth
    siblings = list(zip(tree.parents, tree.choices, strict=True))
    assert len(set(siblings)) == len(siblings)
    assert all(choice == 0 or (parent, choice - 1) in siblings for parent, choice in siblings)
    assert sum(tree.draft_widths) == len({*tree.parents})


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_single_choices_make_a_chain(firsts: list[float]) -> None:
    tree = best_tree([(first,) for first in firsts], len(firsts))
    assert tree.parents == tuple(range(-1, len(firsts) - 1))
    assert tree.tokens_per_pass == pytest.approx(1 + sum(accumulate(firsts, mul)))
    assert tree.draft_widths == (1,) * len(firsts)
    curve = acceptance_by_position(firsts, "any", "U", "")
    assert curve.at(len(firsts)) == pytest.approx(tree.tokens_per_pass)


@pytest.mark.parametrize("curve", measured_curves(), ids=lambda curve: curve.model)
def test_shares_of_a_curve_give_the_curve_again(curve: Acceptance) -> None:
    shares = shares_of(curve, choice_shares().shares)
    for length in curve.draft_tokens:
        firsts = [choices[0] for choices in shares[:length]]
        assert 1 + sum(accumulate(firsts, mul)) == pytest.approx(curve.at(length))
    assert all(sum(choices) <= 1 + 1e-9 for choices in shares)


def machine(more: float, draft: float) -> DraftMachine:
    """A plain pass takes 2 s; each further token ``more`` of it, and a token of the draft ``draft`` of it."""

    def verify_s(tokens: int) -> float:
        return 2.0 * (1 + more * (tokens - 1))

    return DraftMachine(verify_s=verify_s, draft_s=lambda tokens: 2.0 * draft * (1 + more * (tokens - 1)))


def speed_up(times: DraftMachine) -> Callable[[DraftTree], float]:
    return lambda tree: 2.0 / times.tree(tree).token_s


@given(st.sampled_from(measured_curves()), st.floats(0, 0.5), st.floats(0.01, 0.5))
@settings(max_examples=30, deadline=None)
def test_fastest_tree_is_no_slower_than_the_fastest_chain(curve: Acceptance, more: float, draft: float) -> None:
    """And its speed-up is E / (v + the draft's passes), from the numbers of the machine alone."""
    times = machine(more, draft)
    _, chain = best_draft(curve, lambda tokens: 2.0 / times.row(curve, tokens).token_s)
    tree, gain = fastest_tree(shares_of(curve, choice_shares().shares), speed_up(times), range(1, 9))
    assert gain >= chain - 1e-9
    if tree is not None:
        spent = times.verify_s(len(tree.parents) + 1) + sum(map(times.draft_s, tree.draft_widths))
        assert gain == pytest.approx(2.0 * tree.tokens_per_pass / spent)


def test_free_passes_make_wide_trees_and_dear_ones_none() -> None:
    shares = ((0.6, 0.2, 0.1), (0.5, 0.2, 0.1))
    wide, gain = fastest_tree(shares, speed_up(machine(0.0, 0.01)), (1, 2, 4, 8, 12))
    assert len(wide.parents) == 12
    assert gain == pytest.approx(wide.tokens_per_pass / (1 + wide.depth * 0.01))
    assert fastest_tree(shares, speed_up(machine(1.0, 0.1)), (1, 2, 4)) == (None, 1.0)


def test_widths_are_of_nodes_with_children() -> None:
    """Two guesses behind the root, of which the second alone goes on, with two."""
    tree = DraftTree(parents=(ROOT, ROOT, 1, 1, 3), choices=(0, 1, 0, 1, 0), tokens_per_pass=2.0)
    assert (tree.positions, tree.depth, tree.draft_widths) == ((1, 1, 2, 2, 3), 3, (1, 1, 1))
    both = DraftTree(parents=(ROOT, ROOT, 0, 1), choices=(0, 1, 0, 0), tokens_per_pass=2.0)
    assert both.draft_widths == (1, 2)


def test_acceptances_that_are_none_are_refused() -> None:
    assert refusal(BadInput, best_tree, [(0.5,), (1.5,)], 2) == (
        "acceptance 1.5 at position 2: give a share from 0 to 1"
    )
    assert "acceptance nan" in refusal(BadInput, best_tree, [(math.nan,)], 2)
    assert refusal(BadInput, best_tree, [(0.7, 0.5)], 2) == (
        "acceptances of the choices at position 1: 1.2 together; one alone can be accepted, so give at most 1"
    )
    assert "there is none" in refusal(BadInput, best_tree, [], 2)
    for nodes in (0, MAX_NODES + 1):
        assert refusal(BadInput, best_tree, [(0.5,)], nodes) == f"tree of {nodes} nodes: give 1 to {MAX_NODES}"


def test_further_choices_catch_the_same_part_of_what_is_left() -> None:
    assert with_choices(0.5, (0.5, 0.25)) == pytest.approx((0.5, 0.25))
    assert with_choices(0.8, (0.5, 0.25, 0.125)) == pytest.approx((0.8, 0.1, 0.05))
    measured = choice_shares()
    assert with_choices(measured.shares[0], measured.shares) == pytest.approx(measured.shares)
    assert measured.grade == "I"
