"""Mixtures of experts: what PEs choose and multiply is what a plain decoder does, on any mesh and placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, Session, check_traffic, region_options, wafer
from tiny_run import tiny_session, worst_logit_error

from wse.backends.fabric.expert_costs import EVEN
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phases.mesh_state import check_size
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.choice import Choice
from wse.compiler.options import BASELINE, OPTIMIZED, THIN_GEMM
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.remedies import remedies
from wse.errors import BadInput
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED, EXPERT_PLACEMENTS

PROMPT, FOLLOWING = [5, 17, 40, 9, 33, 21, 8], [60, 4, 29]


def executed(mesh: tuple[int, int], experts: str, mixture: str = "shared", wafers: int = 1) -> Session:
    spec = mixture_spec(MIXTURES[mixture], layers=3)
    return tiny_session(spec, mesh, THIN_GEMM, PROMPT, 3, chunk=4, wafers=wafers, experts=experts)


def costs_of_what_runs(run: Session) -> list[PhaseCost]:
    """Execute the prompt and two tokens; the fabric's cost of each pass, given where its tokens were routed to."""
    fabric, engine = run.fabric(), run.engine
    found = [fabric.prefill_cost(index, dict(engine.routing.pairs)) for index in engine.prefill(PROMPT)]
    for i, token in enumerate(FOLLOWING[:-1]):
        engine.decode([token])
        found.append(fabric.decode_cost(len(PROMPT) + i, pairs=dict(engine.routing.pairs)))
    return found


PLACED = [
    (experts, mixture, mesh) for experts in EXPERT_PLACEMENTS for mixture in MIXTURES for mesh in [(3, 3), (4, 5)]
]
IN_GROUPS = [(experts, "shared", (4, 5)) for experts in ("3", "grouped")]


@pytest.mark.parametrize(("experts", "mixture", "mesh"), [*PLACED, *IN_GROUPS], ids=str)
def test_logits_are_those_of_a_plain_decoder(experts: str, mixture: str, mesh: tuple[int, int]) -> None:
    spec = mixture_spec(MIXTURES[mixture])
    assert worst_logit_error(spec, mesh, prompt=7, new_tokens=3, chunk=4, experts=experts) < 1e-5


@pytest.mark.parametrize("experts", [*EXPERT_PLACEMENTS, "2"])
@pytest.mark.parametrize(
    ("mesh", "wafers"),
    [((3, 4), 2), ((3, 11), 1), ((9, 5), 1)],
    ids=["two wafers", "more columns", "rows that share activation"],
)
def test_words_on_links_are_those_of_the_experts_chosen(mesh: tuple[int, int], wafers: int, experts: str) -> None:
    run = executed(mesh, experts, wafers=wafers)
    costs = costs_of_what_runs(run)
    check_traffic(run.engine, costs)


@pytest.mark.parametrize("cols", [12, 18, 20])
def test_the_choice_is_noted_once_all_columns_have_it(cols: int) -> None:
    """In two, three and four stretches of columns, of which the middle one alone chooses."""
    noted = []
    for schedule in (BASELINE, OPTIMIZED):
        spec = mixture_spec(MIXTURES["shared"], layers=3)
        run = tiny_session(spec, (4, cols), THIN_GEMM, PROMPT, 3, chunk=4, experts=DEDICATED, schedule=schedule)
        run.read()
        for token in FOLLOWING:
            run.engine.decode([token])
            noted.append({layer: pairs.tolist() for layer, pairs in run.engine.routing.pairs.items()})
    assert noted[: len(FOLLOWING)] == noted[len(FOLLOWING) :]
    assert all(sum(pairs) == MIXTURES["shared"].active for found in noted for pairs in found.values())


def test_a_column_with_more_pairs_takes_longer_and_carries_as_many_words() -> None:
    run = executed((3, 3), DEDICATED)  # experts 0 and 1 on the first column, 2 and 3 on the second, 4 on the third
    fabric, layers = run.fabric(), [1, 2]
    apart, together = (
        fabric.decode_cost(7, pairs=dict.fromkeys(layers, np.array(pairs)))
        for pairs in ([1, 0, 1, 0, 0], [1, 1, 0, 0, 0])
    )
    assert together.cycles > apart.cycles
    assert together.links.sum() == apart.links.sum()
    assert fabric.decode_cost(7, pairs=EVEN).cycles == apart.cycles


def test_what_spread_experts_cost_does_not_depend_on_the_choice() -> None:
    run = executed((3, 3), DISTRIBUTED)
    fabric = run.fabric()
    skewed = fabric.decode_cost(7, pairs={1: np.array([0, 0, 0, 1, 1]), 2: np.array([1, 1, 0, 0, 0])})
    assert skewed.cycles == fabric.decode_cost(7).cycles
    assert np.array_equal(skewed.links, fabric.decode_cost(7).links)


def test_by_wavelets_spread_experts_send_the_same_words_and_others_are_refused() -> None:
    run = executed((3, 4), DISTRIBUTED)
    decode = run.program.decode
    walked = phase_run(run.program, decode, [7], run.machine, SOFTWARE)
    cost = run.fabric().decode_cost(7)
    assert np.array_equal(walked.links, cost.links)
    own = executed((3, 4), DEDICATED)
    with pytest.raises(BadInput, match=r"does not support experts on columns of their own.*use --experts distributed"):
        phase_run(own.program, own.program.decode, [7], own.machine, SOFTWARE)
    with pytest.raises(BadInput, match=r"use --experts distributed"):
        check_size(own.program, own.machine)


def test_experts_that_fit_spread_alone_are_told_to_be() -> None:
    """Three experts on four columns: the one with two columns has half on each, the others a column each."""
    spec = mixture_spec(replace(MIXTURES["one expert, weighed on its way in"], ffn_size=120))
    options = region_options(context=8, prompt_tokens=(4,), experts=DEDICATED)

    def bytes_of(placement: str) -> int:
        choice = Choice(prefill=THIN_GEMM, prefill_chunk=1, head_chunk=16)
        chosen = replace(options, experts=placement, prompt_tokens=(1,))
        return compile_choice(spec, wafer(2, 4, 1 << 20), SOFTWARE, chosen, choice).stages[0].sram_top_byte

    machine = wafer(2, 4, (bytes_of(DISTRIBUTED) + bytes_of(DEDICATED)) // 2)
    assert "--experts distributed" in remedies(spec, machine, machine, SOFTWARE, options)
    assert "--experts distributed" not in remedies(
        spec, machine, machine, SOFTWARE, replace(options, experts=DISTRIBUTED)
    )
