"""Steps that rewrites change: kernels, operands, words and cycles."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session import SOFTWARE, check_traffic
from tiny_model import tiny_spec
from tiny_run import tiny_session, worst_logit_error
from wafer_runs import wafer_run

from tests.compiler.rewrites.rewritten import (
    MESH,
    PROMPT,
    SHARED,
    kernels_of,
    lines_of,
    program_of,
    runs_kernel,
    shares_of,
    timed,
)
from wse.compiler.options import BASELINE, MESH_GEMM, THIN_GEMM
from wse.models.spec import Experts
from wse.program.isa.instructions import KERNELS
from wse.program.steps import COLUMNS, ROWS


def test_few_features_of_several_pairs_are_shared_out_as_one_vector() -> None:
    """Six features of two pairs are divided between eight neighbours, at most two each."""
    assert SHARED.experts is not None
    spec = replace(SHARED, experts=replace(SHARED.experts, ffn_size=18))
    assert worst_logit_error(spec, (9, 3), chunk=4, schedule="shared-activation") < 1e-5
    shares = shares_of(program_of("shared-activation", spec, mesh=(9, 3)).decode.steps)
    assert {(share["M"], share["shared_tokens"]) for share in shares} == {(1, 1), (2, 2)}


def test_joint_and_shared_work_on_the_pairs_of_a_column_leaves_the_logits_as_they_are() -> None:
    schedule = "joint-blocks,shared-activation"
    assert worst_logit_error(SHARED, MESH, chunk=4, schedule=schedule, experts="dedicated") < 1e-5
    own = tiny_session(SHARED, MESH, THIN_GEMM, PROMPT, 3, schedule=schedule, experts="dedicated").program
    mixtures = sum(layer.experts for layer in SHARED.layers)
    assert kernels_of(own)["activate_share"] == len(SHARED.layers) + mixtures  # dense and shared blocks, and experts
    assert not kernels_of(own)["activate"]


@pytest.mark.parametrize("size", [6, 5])
def test_shares_of_a_pair_that_ends_inside_of_a_word_have_zeros_to_its_end(size: int) -> None:
    """The words of all tokens are those of their pairs, so each pair has whole words."""
    assert SHARED.experts is not None
    spec = replace(SHARED, experts=replace(SHARED.experts, count=8, active=3, ffn_size=size, shared_size=0))
    wanted: dict[str, Any] = {"mapping": "region", "experts": "dedicated", "dtype": "float16"}
    plain, shared = (
        wafer_run(spec, (9, 4), 1, [PROMPT], choice={"rewrites": rewrites}, **wanted)
        for rewrites in ((), (("shared-activation", 8),))
    )
    check_traffic(shared.engine, shared.costs)
    shares = shares_of(shared.program.decode.steps)
    assert [share["padding"] for share in shares] == [0, shares[1]["M"] * (size % 2)]  # of a dense block and of experts
    assert shares[1]["M"] > 1
    assert np.array_equal(shared.engine.logits, plain.engine.logits)  # sums of shares are exact


def test_maxima_are_found_beside_the_exponentials() -> None:
    steps = program_of("merged-sums,local-maxima").decode.steps
    groups = [np.flatnonzero(steps.overlap == group) for group in np.unique(steps.overlap[steps.overlap >= 0])]
    assert len(groups) == 2
    for group in groups:
        assert [KERNELS[steps.code[s]].name for s in group if steps.computes(s)] == [
            "attention_exp",
            "attention_values",
        ]


def test_joined_tasks_save_their_dispatch_and_nothing_else() -> None:
    (_, released), (program, joined) = (timed(schedule, tiny_spec()) for schedule in (BASELINE, "joined-tasks"))
    steps = program.decode.steps
    assert np.array_equal(released.links, joined.links)
    assert not any(steps.runs_in_previous_task[s] and not steps.computes(s - 1) for s in range(1, len(steps)))
    saved = SOFTWARE.task_dispatch_cycles * int(steps.runs_in_previous_task.sum())
    assert 0 < released.cycles - joined.cycles == pytest.approx(saved, abs=len(steps))
    layers = np.array(program.op_layers)[steps.op]
    assert steps.runs_in_previous_task[np.flatnonzero(layers == 1)[0]]  # it adds to what the layer before added to


def test_vectors_over_heads_save_work_of_kernels_that_have_heads_and_nothing_else() -> None:
    (_, baseline), (program, over_heads) = (
        timed(schedule, tiny_spec(heads=8), (9, 3)) for schedule in (BASELINE, "vectors-over-heads")
    )
    steps = program.decode.steps
    assert np.array_equal(baseline.links, over_heads.links)
    saved = baseline.by_step - over_heads.by_step
    assert saved.min() == 0
    named = {KERNELS[steps.code[s]].name for s in np.flatnonzero(saved)}
    assert {"rope", "attention_finish"} <= named
    assert all(KERNELS[steps.code[s]].cycles_over_heads for s in np.flatnonzero(steps.over_heads))


def test_what_is_chosen_is_sent_in_place_of_what_it_is_chosen_from() -> None:
    """Only ids and weights are sent, and a run makes the same choice as before."""
    (gathered, outputs), (central, chosen) = (
        timed(schedule, SHARED, (3, 24)) for schedule in ("gathers", "gathers,central-choice")
    )
    assert kernels_of(gathered) == kernels_of(central)
    assert isinstance(SHARED.experts, Experts)
    layers, saved = sum(layer.experts for layer in SHARED.layers), SHARED.experts.count - 2 * SHARED.experts.active
    assert outputs.links.sum() - chosen.links.sum() == layers * 3 * 23 * saved
    assert kernels_of(program_of("central-choice", SHARED)) == kernels_of(program_of(BASELINE, SHARED))


def test_stretches_of_columns_gather_what_each_has_of_a_router() -> None:
    """Outputs and choices stay inside their column segment, and a run makes the same choices."""
    whole, copied = (
        timed(schedule, SHARED, (3, 24))
        for schedule in ("gathers,central-choice", "gathers,router-copies,central-choice")
    )
    assert kernels_of(whole[0]) == kernels_of(copied[0])
    assert copied[1].cycles < whole[1].cycles
    used = (copied[0].patterns[pattern] for pattern in copied[0].decode.steps.pattern if pattern >= 0)
    sent = next(pattern for pattern in used if pattern.name == "gather").messages[:, :2]
    assert sorted({*map(tuple, sent.tolist())}) == [
        (6 * stretch + source, 6 * stretch + 3) for stretch in range(4) for source in (0, 1, 2, 4)
    ]


@pytest.mark.parametrize("norm", ["rms", "l2"])
def test_scores_are_scaled_in_place_of_queries(norm: str) -> None:
    """Roots are computed during the sum of scores, rotation during that of squares.

    Keys are scaled as before.
    """
    spec = replace(tiny_spec(), head_norm=norm)
    baseline, optimized = program_of(BASELINE, spec), program_of("early-shift,query-scales", spec)
    kernels, steps = kernels_of(optimized), optimized.decode.steps
    assert kernels["scale_heads"] == kernels["rms_factors"] == spec.layer_count
    assert kernels_of(baseline)[f"{norm[:3]}_scale"] - kernels[f"{norm[:3]}_scale"] == spec.layer_count
    beside = [KERNELS[steps.code[s]].name for s in np.flatnonzero(steps.overlap >= 0) if steps.computes(s)]
    assert beside == ["rotate", "rms_factors"] * 2 if norm == "rms" else ["rms_factors"] * 2
    assert [lines_of(program, axis) for program in (baseline, optimized) for axis in (ROWS, COLUMNS)] == [
        lines_of(baseline, ROWS),
        lines_of(baseline, COLUMNS),
    ] * 2


def test_both_directions_of_a_level_share_colours_and_routes_are_rewritten_less_often() -> None:
    baseline, shared = (program_of(schedule, SHARED, (9, 15)) for schedule in (BASELINE, "shared-colours"))
    patterns = [program.patterns[program.decode.steps.pattern.max()] for program in (baseline, shared)]
    assert np.array_equal(patterns[0].messages, patterns[1].messages)
    colours = {(p.name, p.colours) for p in shared.patterns if p.name in ("all_reduce", "multicast")}
    assert colours >= {("all_reduce", 5), ("all_reduce", 10)}  # those that the rewrite replaced are there, unused
    used = {shared.patterns[i].colours for i in shared.decode.steps.pattern if i >= 0}
    assert max(used) == 5
    assert shared.decode.steps.route_rewrites.sum() < baseline.decode.steps.route_rewrites.sum()


def test_turns_are_worked_out_once_and_not_in_every_round_of_a_product_on_the_mesh() -> None:
    """A decoded token has a pattern during which to compute them; prefill by MeshGEMM has none."""
    program = tiny_session(tiny_spec(), (5, 5), MESH_GEMM, PROMPT, 3, schedule="early-turns").program
    iterations = {
        phase.name: [
            phase.steps.iterations(step) for step in np.flatnonzero(runs_kernel(phase.steps, "rotary_turns")).tolist()
        ]
        for phase in program.phases
    }
    assert iterations == {"prefill": [], "decode": [1] * 2}
