"""Tests of the steps that rewrites change: their kernels, operands, words and cycles."""

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
    activate_share_operands,
    kernels_of,
    line_transfer_count,
    program_and_cost,
    program_of,
    runs_kernel,
)
from wse.compiler.options import BASELINE, MESH_GEMM, THIN_GEMM
from wse.models.expert_traits import Experts
from wse.program.isa.instructions import KERNELS
from wse.program.steps import COLUMNS, ROWS


def test_activation_divides_few_features_of_several_pairs_as_one_vector() -> None:
    """Two pairs with six features each are divided among eight neighbours, with at most two features each."""
    assert SHARED.experts is not None
    spec = replace(SHARED, experts=replace(SHARED.experts, ffn_size=18))
    assert worst_logit_error(spec, (9, 3), chunk=4, schedule="shared-activation") < 1e-5
    shares = activate_share_operands(program_of("shared-activation", spec, mesh=(9, 3)).decode.steps)
    assert {(share["M"], share["shared_tokens"]) for share in shares} == {(1, 1), (2, 2)}


def test_joint_and_shared_activation_of_dedicated_experts_keep_the_logits() -> None:
    schedule = "joint-blocks,shared-activation"
    assert worst_logit_error(SHARED, MESH, chunk=4, schedule=schedule, experts="dedicated") < 1e-5
    program = tiny_session(SHARED, MESH, THIN_GEMM, PROMPT, 3, schedule=schedule, experts="dedicated").program
    mixtures = sum(layer.experts for layer in SHARED.layers)
    # The kernel runs for dense and shared blocks, and for experts.
    assert kernels_of(program)["activate_share"] == len(SHARED.layers) + mixtures
    assert not kernels_of(program)["activate"]


def test_shares_of_a_pair_are_padded_to_whole_words() -> None:
    """The words of a message are those of its pairs, so each pair is padded to whole words."""
    assert SHARED.experts is not None
    spec = replace(SHARED, experts=replace(SHARED.experts, count=8, active=3, ffn_size=5, shared_size=0))
    options: dict[str, Any] = {"mapping": "region", "experts": "dedicated", "dtype": "float16"}
    plain, shared = (
        wafer_run(spec, (9, 4), 1, [PROMPT], choice={"rewrites": rewrites}, **options)
        for rewrites in ((), (("shared-activation", 8),))
    )
    check_traffic(shared.engine, shared.costs)
    shares = activate_share_operands(shared.program.decode.steps)
    assert [share["padding"] for share in shares] == [0, shares[1]["M"]]  # a dense block, then experts
    assert shares[1]["M"] > 1
    assert np.array_equal(shared.engine.logits, plain.engine.logits)  # the sums are exact


def test_maxima_run_in_parallel_with_exponentials() -> None:
    steps = program_of("merged-sums,local-maxima").decode.steps
    groups = [np.flatnonzero(steps.overlap == group) for group in np.unique(steps.overlap[steps.overlap >= 0])]
    assert len(groups) == 2
    for group in groups:
        assert [KERNELS[steps.code[s]].name for s in group if steps.computes(s)] == [
            "attention_exp",
            "attention_values",
        ]


def test_joined_tasks_save_only_their_dispatch() -> None:
    (_, released), (program, joined) = (
        program_and_cost(schedule, tiny_spec()) for schedule in (BASELINE, "joined-tasks")
    )
    steps = program.decode.steps
    assert np.array_equal(released.links, joined.links)
    assert not any(steps.runs_in_previous_task[s] and not steps.computes(s - 1) for s in range(1, len(steps)))
    saved = SOFTWARE.task_dispatch_cycles * int(steps.runs_in_previous_task.sum())
    assert 0 < released.cycles - joined.cycles == pytest.approx(saved, abs=len(steps))
    layers = np.array(program.op_layers)[steps.op]
    assert steps.runs_in_previous_task[np.flatnonzero(layers == 1)[0]]  # it reads the vector that layer 0 wrote


def test_vectors_over_heads_change_only_kernels_with_heads() -> None:
    (_, baseline), (program, over_heads) = (
        program_and_cost(schedule, tiny_spec(heads=8), (9, 3)) for schedule in (BASELINE, "vectors-over-heads")
    )
    steps = program.decode.steps
    assert np.array_equal(baseline.links, over_heads.links)
    saved = baseline.by_step - over_heads.by_step
    assert saved.min() == 0
    kernel_names = {KERNELS[steps.code[s]].name for s in np.flatnonzero(saved)}
    assert {"rope", "attention_finish"} <= kernel_names
    assert all(KERNELS[steps.code[s]].cycles_over_heads for s in np.flatnonzero(steps.over_heads))


def test_central_choice_sends_selected_experts_in_place_of_outputs() -> None:
    """Only ids and weights of the selected experts are sent; the kernels do not change."""
    (gathered, outputs), (central, chosen) = (
        program_and_cost(schedule, SHARED, (3, 24)) for schedule in ("gathers", "gathers,central-choice")
    )
    assert kernels_of(gathered) == kernels_of(central)
    assert isinstance(SHARED.experts, Experts)
    layers, saved = sum(layer.experts for layer in SHARED.layers), SHARED.experts.count - 2 * SHARED.experts.active
    assert outputs.links.sum() - chosen.links.sum() == layers * 3 * 23 * saved
    assert kernels_of(program_of("central-choice", SHARED)) == kernels_of(program_of(BASELINE, SHARED))


def test_router_copies_gather_outputs_within_column_segments() -> None:
    """Router outputs and selections stay inside their segment of columns; the kernels do not change."""
    one_segment, four_segments = (
        program_and_cost(schedule, SHARED, (3, 24))
        for schedule in ("gathers,central-choice", "gathers,router-copies,central-choice")
    )
    assert kernels_of(one_segment[0]) == kernels_of(four_segments[0])
    assert four_segments[1].cycles < one_segment[1].cycles
    used = (four_segments[0].patterns[pattern] for pattern in four_segments[0].decode.steps.pattern if pattern >= 0)
    sent = next(pattern for pattern in used if pattern.name == "gather").messages[:, :2]
    assert sorted({*map(tuple, sent.tolist())}) == [
        (6 * segment + source, 6 * segment + 3) for segment in range(4) for source in (0, 1, 2, 4)
    ]


@pytest.mark.parametrize("norm", ["rms", "l2"])
def test_query_scales_scale_scores_in_place_of_queries(norm: str) -> None:
    """Roots are computed during the all-reduce of scores, rotations during that of squares.

    Keys are scaled as before.
    """
    spec = replace(tiny_spec(), head_norm=norm)
    baseline, optimized = program_of(BASELINE, spec), program_of("early-shift,query-scales", spec)
    kernels, steps = kernels_of(optimized), optimized.decode.steps
    assert kernels["scale_heads"] == kernels["rms_factors"] == spec.layer_count
    assert kernels_of(baseline)[f"{norm[:3]}_scale"] - kernels[f"{norm[:3]}_scale"] == spec.layer_count
    overlapped_kernels = [KERNELS[steps.code[s]].name for s in np.flatnonzero(steps.overlap >= 0) if steps.computes(s)]
    assert overlapped_kernels == ["rotate", "rms_factors"] * 2 if norm == "rms" else ["rms_factors"] * 2
    assert [line_transfer_count(program, axis) for program in (baseline, optimized) for axis in (ROWS, COLUMNS)] == [
        line_transfer_count(baseline, ROWS),
        line_transfer_count(baseline, COLUMNS),
    ] * 2


def test_shared_colours_reduce_colours_and_route_rewrites() -> None:
    baseline, shared = (program_of(schedule, SHARED, (9, 15)) for schedule in (BASELINE, "shared-colours"))
    patterns = [program.patterns[program.decode.steps.pattern.max()] for program in (baseline, shared)]
    assert np.array_equal(patterns[0].messages, patterns[1].messages)
    colours = {(p.name, p.colours) for p in shared.patterns if p.name in ("all_reduce", "multicast")}
    assert colours >= {("all_reduce", 5), ("all_reduce", 10)}  # the replaced patterns are still listed, but unused
    used = {shared.patterns[i].colours for i in shared.decode.steps.pattern if i >= 0}
    assert max(used) == 5
    assert shared.decode.steps.route_rewrites.sum() < baseline.decode.steps.route_rewrites.sum()


def test_early_turns_compute_rotations_once_and_never_for_mesh_gemm() -> None:
    """Rotations are computed during a transfer of a decoded token. Prefill by MeshGEMM has no such transfer."""
    program = tiny_session(tiny_spec(), (5, 5), MESH_GEMM, PROMPT, 3, schedule="early-turns").program
    iterations = {
        phase.name: [
            phase.steps.iterations(step) for step in np.flatnonzero(runs_kernel(phase.steps, "rotary_turns")).tolist()
        ]
        for phase in program.phases
    }
    assert iterations == {"prefill": [], "decode": [1] * 2}
