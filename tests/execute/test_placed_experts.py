"""Tests of experts placed by recorded selections: the same experts are selected, and words are those of the fabric."""

from typing import Final

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import Session, check_traffic
from tiny_run import tiny_session, worst_logit_error

from wse.backends.fabric.expert_columns import ExpertTokens
from wse.compiler.options import THIN_GEMM
from wse.program.expert_pairs import assumed_pairs, pairs_of_columns
from wse.program.routing import RoutingDistribution, measured_routing

PROMPT, FOLLOWING = [5, 17, 40, 9, 33, 21, 8], [60, 4, 29]
GROUPED: Final = [("2", "shared"), ("3", "biased"), ("2", "limited to groups"), ("dedicated", "softmax")]


def recorded_selections(mixture: str) -> RoutingDistribution:
    """Return routing in which the last experts are selected most often, so that placement moves experts."""
    experts = MIXTURES[mixture]
    last = np.arange(experts.count - experts.active, experts.count, dtype=np.int32)
    random = np.random.default_rng(3)
    others = np.argsort(random.random((6, experts.count)), axis=1)[:, : experts.active]
    choices = np.concatenate([np.tile(last, (9, 1)), others]).astype(np.int32)
    return measured_routing("file", (1, 2), np.stack([choices, choices[::-1]]), experts.count)


def session_and_pairs(
    experts: str, mixture: str, wafers: int, **options: RoutingDistribution
) -> tuple[Session, list[ExpertTokens]]:
    """Prefill a prompt and decode two tokens; return the session and the pairs of each pass."""
    spec = mixture_spec(MIXTURES[mixture], layers=3)
    run = tiny_session(spec, (4, 5), THIN_GEMM, PROMPT, 3, chunk=4, wafers=wafers, experts=experts, **options)
    pairs = [dict(run.engine.expert_pairs) for _ in run.engine.prefill(PROMPT)]
    for token in FOLLOWING[:-1]:
        run.engine.decode([token])
        pairs.append(dict(run.engine.expert_pairs))
    return run, pairs


@pytest.mark.parametrize(("experts", "mixture"), GROUPED, ids=str)
def test_logits_are_those_of_the_plain_decoder(experts: str, mixture: str) -> None:
    options = {"experts": experts, "placed_selections": recorded_selections(mixture)}
    assert worst_logit_error(mixture_spec(MIXTURES[mixture]), (4, 5), prompt=7, new_tokens=3, chunk=4, **options) < 1e-5


@pytest.mark.parametrize(("experts", "mixture", "wafers"), [("2", "shared", 1), ("dedicated", "biased", 2)])
def test_selected_experts_do_not_change_and_words_are_those_of_the_fabric(
    experts: str, mixture: str, wafers: int
) -> None:
    placed, pairs = session_and_pairs(experts, mixture, wafers, placed_selections=recorded_selections(mixture))
    _, pairs_by_index = session_and_pairs(experts, mixture, wafers)
    order = placed.program.expert_order[1]
    assert not np.array_equal(order, np.arange(len(order)))
    for pass_pairs, expected in zip(pairs, pairs_by_index, strict=True):
        assert {layer: loads.tolist() for layer, loads in pass_pairs.items()} == {
            layer: loads.tolist() for layer, loads in expected.items()
        }
    fabric = placed.fabric()
    prefill = [fabric.prefill_cost(index, pairs[index]) for index in range(len(pairs) - 2)]
    decode = [fabric.decode_cost(len(PROMPT) + i, expert_tokens=pairs[i - 2]) for i in range(2)]
    check_traffic(placed.engine, [*prefill, *decode])


def test_placement_reduces_maximum_pairs_and_cycles() -> None:
    routing, max_pairs, cycles = recorded_selections("shared"), [], []
    for options in ({}, {"placed_selections": routing}):
        run, _ = session_and_pairs("2", "shared", 1, routing=routing, **options)
        program = run.program
        stage = next(s for k, s in zip(program.op_kinds, program.op_stages, strict=True) if k == "experts")
        pairs = [assumed_pairs(program, stage, layer, 9) for layer in (1, 2)]
        assert [loads.tolist() for loads in pairs] == [routing.loads(layer, 9).tolist() for layer in (1, 2)]
        columns = [pairs_of_columns(program, stage, layer, loads) for layer, loads in zip((1, 2), pairs, strict=True)]
        max_pairs.append(sum(int(loads.max()) for loads in columns))
        cycles.append([run.fabric().prefill_cost(0).cycles, run.fabric().decode_cost(7).cycles])
    assert max_pairs[1] < max_pairs[0]
    assert cycles[1] < cycles[0]
