"""Tests of speculative decoding: speed-ups by draft length and by draft tree, against formulas and published gains."""

import math
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise, product
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
    acceptance_of,
    best_draft,
    choice_frequencies,
    measured_curves,
    typical,
)
from wse.serving.drafts.tree import (
    MAX_NODES,
    ROOT,
    ChoiceAcceptances,
    DraftTree,
    best_tree,
    choice_acceptances,
    fastest_tree,
    with_choices,
)


def tokens_per_pass(acceptance: float, draft: int) -> float:
    """Return the mean tokens per pass if each draft token is accepted with the same probability.

    Source: Leviathan et al., arXiv 2211.17192, equation 1.
    """
    return sum(acceptance**n for n in range(draft + 1))


def speed_up(yielded_tokens: float, draft_tokens: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Return the speed-up over plain decoding. Costs are times divided by that of a plain pass.

    Source: Leviathan et al., arXiv 2211.17192, theorem 3.8, where the verification cost is 1.
    """
    return yielded_tokens / (draft_tokens * draft_cost + verify_cost)


def test_speed_up_of_deepseek_r1_matches_published_gains() -> None:
    """Published for 8 B200 at batch 1: 1.78x, 2.28x, 2.15x with 1, 3, 5 draft tokens, each 7 to 9 % of a step."""
    curve = acceptance_of("DeepSeek-R1")
    for draft, gain in ((1, 1.78), (3, 2.28), (5, 2.15)):
        assert speed_up(curve.at(draft), draft, 0.09) < gain * 1.005
        assert speed_up(curve.at(draft), draft, 0.07) > gain * 0.995
    assert best_draft(curve, lambda n: speed_up(curve.at(n), n, 0.08))[0] == 3


@given(st.sampled_from(measured_curves()), st.floats(0, 1), st.floats(0, 1))
def test_best_draft_is_the_best_of_all_lengths(curve: Acceptance, draft_cost: float, more: float) -> None:
    """Each further token of a pass costs `more`. Lengths are tried only until one is slower than the one before it."""
    tried = []

    def gain_of(tokens: int) -> float:
        tried.append(tokens)
        return speed_up(curve.at(tokens), tokens, draft_cost, 1.0 + more * tokens)

    length, gain = best_draft(curve, gain_of)
    lengths = range(1, max(curve.draft_tokens) + 1)
    gains = [speed_up(curve.at(n), n, draft_cost, 1.0 + more * n) for n in lengths]
    assert gain == pytest.approx(max(1.0, *gains))
    assert len(tried) <= length + 2 or not length or gain > max(gains[length:])


def test_second_peak_is_found_if_the_search_allows_two() -> None:
    """The second draft token costs more than it gains, and further tokens cost nothing."""
    curve = acceptance_of("GLM-5.2")

    def verify_cost(tokens: int) -> float:
        return 1.0 if tokens <= 2 else 1.6

    lengths = range(1, max(curve.draft_tokens) + 1)
    gains = {n: speed_up(curve.at(n), n, 0.0, verify_cost(n + 1)) for n in lengths}
    assert gains[1] > gains[2]
    assert best_draft(curve, gains.__getitem__) == (1, gains[1])
    best = max(gains, key=lambda n: gains[n])
    assert best > 2
    assert best_draft(curve, gains.__getitem__, has_one_peak=False) == (best, gains[best])


@pytest.mark.parametrize("curve", measured_curves(), ids=lambda curve: curve.model)
def test_measured_curve_is_concave_and_has_a_source(curve: Acceptance) -> None:
    """The curve starts at 1, rises by at most 1 per draft token, and the slope never increases."""
    points = [(0, 1.0), *zip(curve.draft_tokens, curve.tokens_per_pass, strict=True)]
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in pairwise(points)]
    assert all(after <= before + 1e-9 for before, after in pairwise(slopes))
    assert 0 < slopes[-1] <= slopes[0] <= 1
    assert curve.grade == "M"
    assert len(curve.source) > 15
    for draft, yielded in points:
        assert curve.at(draft) == pytest.approx(yielded)
    assert curve.at(100) == curve.tokens_per_pass[-1]
    assert curve.tokens_per_pass[-1] < tokens_per_pass(slopes[0], curve.draft_tokens[-1]), "acceptance must fall"


def test_typical_curve_is_the_geometric_mean_at_measured_lengths() -> None:
    curve = typical()
    for draft in curve.draft_tokens:
        product = math.prod(c.at(draft) for c in measured_curves())
        assert curve.at(draft) == pytest.approx(product ** (1 / len(measured_curves())))
    assert curve.grade == "I"


def test_negative_draft_length_is_refused() -> None:
    assert refusal(BadInput, acceptance_of("DeepSeek-R1").at, -1) == "draft of -1 tokens: give a number of at least 0"


def test_model_without_a_curve_uses_the_typical_one() -> None:
    assert acceptance_of("deepseek r1").model == "DeepSeek-R1"
    assert acceptance_of("deepseek-r1") is acceptance_of("DeepSeek-R1")
    assert acceptance_of("llama-3.1-70b") == typical()


@st.composite
def falling_acceptances(draw: st.DrawFn) -> ChoiceAcceptances:
    """Draw acceptance probabilities of 1 to 4 positions, each with 1 to 3 choices.

    The choices of a position are in falling order and their sum is at most 1.
    """
    positions = []
    for _ in range(draw(st.integers(1, 4))):
        parts = sorted(draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3)), reverse=True)
        scale = draw(st.floats(0.1, 1.0)) / sum(parts)
        positions.append(tuple(part * scale for part in parts))
    return tuple(positions)


def forests(positions: ChoiceAcceptances, depth: int, nodes: int) -> Iterator[float]:
    """Yield the expected number of accepted draft tokens for every forest of at most `nodes` nodes and depth `depth`.

    The roots of a forest are the most likely choices of the first position.
    """
    if not positions or not depth:
        yield 0.0
        return
    for children in range(min(nodes, len(positions[0])) + 1):
        for sizes in product(range(1, nodes + 1), repeat=children):
            if sum(sizes) <= nodes:
                below = [list(forests(positions[1:], depth - 1, size - 1)) for size in sizes]
                for values in product(*below):
                    yield sum(p * (1 + v) for p, v in zip(positions[0], values, strict=False))


def yielded_tokens(tree: DraftTree, acceptances: ChoiceAcceptances) -> float:
    """Return the mean tokens per pass of a tree: 1 plus, for each node, the product of probabilities on its path."""
    values: list[float] = []
    for parent, choice, position in zip(tree.parents, tree.choices, tree.positions, strict=True):
        values.append((1.0 if parent == ROOT else values[parent]) * acceptances[position - 1][choice])
    return 1 + sum(values)


@settings(max_examples=40, deadline=None)
@given(falling_acceptances(), st.integers(1, 5), st.integers(1, 4))
def test_best_tree_yields_the_most_tokens_of_all_trees_of_its_size(
    acceptances: ChoiceAcceptances, nodes: int, depth: int
) -> None:
    tree = best_tree(acceptances, nodes, depth)
    assert tree.tokens_per_pass == pytest.approx(1 + max(forests(acceptances, depth, nodes)))
    assert tree.tokens_per_pass == pytest.approx(yielded_tokens(tree, acceptances))
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
    curve = acceptance_by_position(firsts, "any")
    assert curve.at(len(firsts)) == pytest.approx(tree.tokens_per_pass)


@pytest.mark.parametrize("curve", measured_curves(), ids=lambda curve: curve.model)
def test_acceptances_of_a_curve_reproduce_the_curve(curve: Acceptance) -> None:
    acceptances = choice_acceptances(curve, choice_frequencies().frequencies)
    for length in curve.draft_tokens:
        firsts = [choices[0] for choices in acceptances[:length]]
        assert 1 + sum(accumulate(firsts, mul)) == pytest.approx(curve.at(length))
    assert all(sum(choices) <= 1 + 1e-9 for choices in acceptances)


def machine(more: float, draft: float) -> DraftMachine:
    """Return a machine whose plain decode pass takes 2 s.

    Args:
        more: Time that each further token of a pass costs, divided by the time of a plain pass.
        draft: Time of a draft pass with one token, divided by the time of a plain pass.
    """

    def verify_s(tokens: int) -> float:
        return 2.0 * (1 + more * (tokens - 1))

    return DraftMachine(verify_s=verify_s, draft_s=lambda tokens: 2.0 * draft * (1 + more * (tokens - 1)))


def tree_speed_up(times: DraftMachine) -> Callable[[DraftTree], float]:
    """Return a function from a tree to its speed-up over the plain decode pass of 2 s."""
    return lambda tree: 2.0 / times.tree(tree).token_s


@given(st.sampled_from(measured_curves()), st.floats(0, 0.5), st.floats(0.01, 0.5))
@settings(max_examples=30, deadline=None)
def test_fastest_tree_is_no_slower_than_the_fastest_chain(curve: Acceptance, more: float, draft: float) -> None:
    """Its speed-up is E / (v + time of the draft passes), with the costs of the machine."""
    times = machine(more, draft)
    _, chain = best_draft(curve, lambda tokens: 2.0 / times.row(curve, tokens).token_s)
    tree, gain = fastest_tree(
        choice_acceptances(curve, choice_frequencies().frequencies), tree_speed_up(times), range(1, 9)
    )
    assert gain >= chain - 1e-9
    if tree is not None:
        spent = times.verify_s(len(tree.parents) + 1) + sum(map(times.draft_s, tree.draft_widths))
        assert gain == pytest.approx(2.0 * tree.tokens_per_pass / spent)


def test_fastest_tree_is_wide_if_passes_are_free_and_none_if_they_are_expensive() -> None:
    acceptances = ((0.6, 0.2, 0.1), (0.5, 0.2, 0.1))
    wide, gain = fastest_tree(acceptances, tree_speed_up(machine(0.0, 0.01)), (1, 2, 4, 8, 12))
    assert len(wide.parents) == 12
    assert gain == pytest.approx(wide.tokens_per_pass / (1 + wide.depth * 0.01))
    assert fastest_tree(acceptances, tree_speed_up(machine(1.0, 0.1)), (1, 2, 4)) == (None, 1.0)


def test_widths_are_of_nodes_with_children() -> None:
    """Of the two nodes after the root, only the second one has children, namely two."""
    tree = DraftTree(parents=(ROOT, ROOT, 1, 1, 3), choices=(0, 1, 0, 1, 0), tokens_per_pass=2.0)
    assert (tree.positions, tree.depth, tree.draft_widths) == ((1, 1, 2, 2, 3), 3, (1, 1, 1))
    both = DraftTree(parents=(ROOT, ROOT, 0, 1), choices=(0, 1, 0, 0), tokens_per_pass=2.0)
    assert both.draft_widths == (1, 2)


def test_impossible_acceptances_are_refused() -> None:
    assert refusal(BadInput, best_tree, [(0.5,), (1.5,)], 2) == (
        "acceptance 1.5 at position 2: give a probability from 0 to 1"
    )
    assert "acceptance nan" in refusal(BadInput, best_tree, [(math.nan,)], 2)
    assert refusal(BadInput, best_tree, [(0.7, 0.5)], 2) == (
        "acceptances of the choices at position 1: 1.2 together; one alone can be accepted, so give at most 1"
    )
    assert "is empty" in refusal(BadInput, best_tree, [], 2)
    for nodes in (0, MAX_NODES + 1):
        assert refusal(BadInput, best_tree, [(0.5,)], nodes) == f"tree of {nodes} nodes: give 1 to {MAX_NODES}"


def test_further_choices_keep_their_fraction_of_the_remaining_probability() -> None:
    assert with_choices(0.5, (0.5, 0.25)) == pytest.approx((0.5, 0.25))
    assert with_choices(0.8, (0.5, 0.25, 0.125)) == pytest.approx((0.8, 0.1, 0.05))
    assert with_choices(0.1, (0.5, 0.25, 0.125)) == pytest.approx((0.1, 0.1, 0.1))  # at most the choice before
    measured = choice_frequencies()
    assert with_choices(measured.frequencies[0], measured.frequencies) == pytest.approx(measured.frequencies)
    assert measured.grade == "I"
