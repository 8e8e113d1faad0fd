"""Test rewrites of a layer's steps: the same logits, the conditions, and the search."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, check_traffic, region_options, wafer
from timed_search import timing_of
from tiny_model import latent_spec, tiny_spec
from tiny_run import tiny_session, worst_logit_error
from wafer_runs import wafer_run

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.options import BASELINE, MESH_GEMM, OPTIMIZED, THIN_GEMM
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.search import fits, search
from wse.errors import BadInput, UnknownName
from wse.models.spec import Experts, ModelSpec
from wse.program.isa.instructions import CODES, KERNELS
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS, StepKind, Steps

MESH, PROMPT = (9, 5), [5, 17, 40, 9, 33, 21, 8]
SHARED = mixture_spec(MIXTURES["shared"])
MANY_EXPERTS = mixture_spec(Experts(count=258, active=2, ffn_size=4))
BIASED = replace(tiny_spec(), ffn_bias=True)
LAYER_NORMS = replace(tiny_spec(), norm="layer", gated=False, qkv_bias=True, ffn_bias=True, output_bias=True)
OPTIONS = region_options(context=30, prompt_tokens=(9,), schedule=OPTIMIZED)


def program_of(schedule: str, spec: ModelSpec | None = None, mesh: tuple[int, int] = MESH) -> Program:
    return tiny_session(spec or tiny_spec(), mesh, THIN_GEMM, PROMPT, 3, schedule=schedule).program


def timed(schedule: str, spec: ModelSpec, mesh: tuple[int, int] = MESH) -> tuple[Program, PhaseCost]:
    """Return a program, and the cost of its decoded token."""
    run = tiny_session(spec, mesh, THIN_GEMM, PROMPT, 3, schedule=schedule)
    return run.program, run.fabric().decode_cost(len(PROMPT))


def shares_of(steps: Steps) -> list[dict[str, int]]:
    """Return the operands of the steps that activate shares."""
    return [
        KERNELS[steps.code[s]].by_name(steps.operands(s, {0: 0}))
        for s in np.flatnonzero(_runs(steps, "activate_share")).tolist()
    ]


def kernels_of(program: Program) -> Counter[str]:
    """Return the names of the kernels of a decoded token."""
    steps = program.decode.steps
    return Counter(KERNELS[code].name for code in steps.code[steps.kind == StepKind.COMPUTE])


def _runs(steps: Steps, kernel: str) -> npt.NDArray[np.bool_]:
    """Return which steps run a kernel, as a mask."""
    return (steps.kind == StepKind.COMPUTE) & (steps.code == CODES[kernel])


def lines_of(program: Program, axis: int) -> int:
    """Return the patterns of a decoded token along an axis."""
    steps = program.decode.steps
    return int(((steps.pattern >= 0) & (steps.axis == axis)).sum())


@pytest.mark.parametrize(
    ("schedule", "spec"),
    [
        ("norm-scales", SHARED),  # whose vectors a router, a shared block and experts read
        ("norm-scales", tiny_spec()),
        ("norm-scales", LAYER_NORMS),
        ("norm-scales", replace(SHARED, norm="layer")),  # one LayerNorm that rides along, one whose vectors others read
        ("norm-scales,shared-activation,joined-tasks", replace(tiny_spec(), norm="layer")),
        ("norm-scales", latent_spec(q_rank=0)),  # a product and a copy side by side
        ("norm-scales", latent_spec()),  # norms of two vectors, summed together
        ("merged-sums,local-maxima", replace(tiny_spec(), sinks=True)),
        ("early-turns", tiny_spec()),
        ("early-shift,early-turns,query-scales,joined-tasks", replace(tiny_spec(), head_norm="rms")),
        ("query-gathers,early-turns", latent_spec()),
        ("early-sinks", replace(tiny_spec(), sinks=True)),
        ("merged-sums,local-maxima,early-sinks,joined-tasks", replace(tiny_spec(), sinks=True)),
        ("router-scores", SHARED),
        ("joint-blocks", SHARED),
        ("norm-scales,joint-blocks,shared-activation,joined-tasks", SHARED),
        ("router-scores", mixture_spec(MIXTURES["softmax"])),
        ("router-scores,gathers", SHARED),
        ("gathers,central-choice", mixture_spec(MIXTURES["not normalised"])),
        ("norm-scales,router-scores,gathers,central-choice,joined-tasks", SHARED),
        ("router-scores,gathers,central-choice", mixture_spec(MIXTURES["softmax"])),
        ("gathers,router-copies", SHARED),
        ("router-scores,gathers,router-copies,central-choice", SHARED),
        ("router-scores,gathers,router-copies", mixture_spec(MIXTURES["softmax"])),
        ("joint-blocks,shared-activation,joint-shares,joined-tasks", SHARED),
        ("shared-activation", tiny_spec()),
        ("norm-scales,shared-activation", tiny_spec()),
        ("shared-exp", replace(tiny_spec(kv_heads=1, heads=4), score_cap=3.0)),
        ("merged-sums,shared-exp,local-maxima", latent_spec()),
        ("picked-heads", latent_spec()),
        ("query-gathers", latent_spec()),  # three rows a head
        ("norm-scales,query-gathers,early-shift", latent_spec(heads=9)),  # a row each
        ("query-gathers", latent_spec(heads=11)),  # rows with two: summed as they are
        ("query-scales", replace(tiny_spec(), head_norm="rms")),
        ("query-scales", replace(tiny_spec(), head_norm="l2", score_cap=3.0)),
        ("early-shift,query-scales,joined-tasks", replace(tiny_spec(), head_norm="rms", norm_unit_offset=True)),
    ],
    ids=lambda value: value.replace(",", " and ") if isinstance(value, str) else value.family,
)
def test_logits_are_those_of_a_plain_decoder(schedule: str, spec: ModelSpec) -> None:
    mesh = (3, 17) if "shared-exp" in schedule else MESH  # whose columns are those of one head group
    mesh = (5, 24) if "router-copies" in schedule else mesh  # with outputs of a router three or four times
    assert worst_logit_error(spec, mesh, chunk=4, schedule=schedule) < 1e-5


@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("spec", [tiny_spec(), SHARED, latent_spec()], ids=["dense", "mixture", "latent"])
def test_logits_are_those_of_a_plain_decoder_in_whatever_groups_words_are_summed(spec: ModelSpec, groups: int) -> None:
    assert worst_logit_error(spec, (9, 11), chunk=4, schedule=OPTIMIZED, groups=groups) < 1e-5


EFFECTS: dict[str, tuple[str, ModelSpec, tuple[int, int], tuple[int, int], dict[str, int]]] = {
    "norms": ("norm-scales", tiny_spec(), MESH, (0, 4), {"gain_sum_squares": 4, "rms_scale_sums": 4, "rms_scale": 1}),
    "layer norms": ("norm-scales", LAYER_NORMS, MESH, (0, 4), {"gain_moments": 4, "moments": 1, "layer_scale": 1}),
    "norms of latent vectors": ("norm-scales", latent_spec(), MESH, (2, 4), {"sum_squares": 3, "rms_scale": 3}),
    "sums of softmax": ("merged-sums", tiny_spec(), MESH, (0, 2), {}),
    "exponentials": ("shared-exp", tiny_spec(kv_heads=1), (3, 17), (-2, 0), {"attention_exp_share": 2}),
    "head groups of unequal columns": ("shared-exp", tiny_spec(), (9, 15), (0, 0), {"attention_exp_share": 0}),
    "activation": ("shared-activation", tiny_spec(), MESH, (0, -2), {"activate_share": 2, "activate": 0}),
    "activation on few rows": ("shared-activation", tiny_spec(), (3, 5), (0, 0), {"activate_share": 0}),
    "scaled shares": ("norm-scales,shared-activation", tiny_spec(), MESH, (0, 2), {"rms_scale_share": 2}),
    "shares with biases": ("norm-scales,shared-activation", BIASED, MESH, (0, 2), {"rms_scale_share": 0}),
    "picked heads": ("picked-heads", latent_spec(), MESH, (0, 0), {"finish_heads": 2, "attention_finish": 0}),
    "gathered queries": ("query-gathers", latent_spec(), MESH, (0, -4), {"set_heads": 4, "place_heads": 0}),
    "queries of several heads a row": ("query-gathers", latent_spec(heads=11), MESH, (0, 0), {"set_heads": 0}),
    "joint blocks": ("joint-blocks", SHARED, MESH, (1, 1), {"activate": 2 + 1}),
    "gathered scores": ("gathers", SHARED, (3, 24), (-1, 0), {}),
    "early turns": ("early-turns", tiny_spec(), MESH, (0, 0), {"rotary_turns": 2}),
    "shares of both blocks": ("joint-blocks,shared-activation,joint-shares", SHARED, MESH, (1, -1), {}),
}
"""A schedule, its model and mesh; patterns along rows and columns that it saves, and calls of kernels, of a token."""


@pytest.mark.parametrize("name", EFFECTS)
def test_rewrites_save_patterns_and_call_other_kernels(name: str) -> None:
    schedule, spec, mesh, saved, calls = EFFECTS[name]
    released, rewritten = (program_of(one, spec, mesh) for one in (BASELINE, schedule))
    assert tuple(lines_of(released, axis) - lines_of(rewritten, axis) for axis in (ROWS, COLUMNS)) == saved
    kernels = kernels_of(rewritten)
    assert {kernel: kernels[kernel] for kernel in calls} == calls


def test_a_layer_norm_stays_apart_where_its_products_have_no_room() -> None:
    low, high = 0, 1 << 20  # a PE with so many bytes has no room for the model, and has
    while high - low > 32:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(LAYER_NORMS, wafer(*MESH, middle), SOFTWARE, OPTIONS) else (middle, high)
    roomy, tight = (search(LAYER_NORMS, wafer(*MESH, sram), SOFTWARE, OPTIONS) for sram in (1 << 20, high))
    assert "norm-scales" in dict(roomy.choice.rewrites)
    assert tight.choice.rewrites == tuple(one for one in roomy.choice.rewrites if one[0] != "norm-scales")
    names = [{tile.name for tile in found.program.tiles} for found in (tight, roomy)]
    assert len(names[1] - names[0]) == 2 * LAYER_NORMS.layer_count


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
            phase.steps.iterations(step) for step in np.flatnonzero(_runs(phase.steps, "rotary_turns")).tolist()
        ]
        for phase in program.phases
    }
    assert iterations == {"prefill": [], "decode": [1] * 2}


@pytest.mark.parametrize(
    ("name", "spec", "changes", "reason"),
    [
        ("norm-scales", tiny_spec(), {"dtype": "float16"}, "float16 activations may overflow"),
        ("norm-scales", LAYER_NORMS, {"dtype": "int8", "activations": "float32"}, "LayerNorm, whose gains and biases"),
        ("merged-sums", tiny_spec(), {"dtype": "float16", "accumulate": "float16"}, "sums are float16"),
        ("picked-heads", tiny_spec(), {}, "no latent attention"),
        ("query-gathers", tiny_spec(), {}, "no latent attention"),
        ("query-gathers", latent_spec(), {"dtype": "float16", "accumulate": "float16"}, "sums are float16"),
        ("gathers", tiny_spec(), {}, "no router"),
        ("early-sinks", tiny_spec(), {}, "no sinks"),
        ("early-turns", replace(tiny_spec(), rope=None), {}, "rotates nothing"),
        ("router-copies", tiny_spec(), {}, "no router"),
        ("sent-choice", tiny_spec(), {}, "no router"),
        ("sent-choice", MANY_EXPERTS, {"dtype": "bfloat16"}, "cannot represent all ids of 258 experts"),
        ("central-choice", tiny_spec(), {}, "no router"),
        ("joint-shares", tiny_spec(), {}, "no shared block in addition to its experts"),
        ("query-scales", tiny_spec(), {}, "does not normalise heads"),
        (
            "query-scales",
            replace(tiny_spec(), head_norm="rms"),
            {"dtype": "float16"},
            "float16 activations may overflow",
        ),
        ("local-maxima", tiny_spec(), {"dtype": "float16", "accumulate": "float16"}, "sums are float16"),
        ("router-scores", tiny_spec(), {}, "no router"),
        ("joint-blocks", mixture_spec(MIXTURES["softmax"]), {}, "no shared block in addition to its experts"),
        ("router-scores", mixture_spec(MIXTURES["not normalised"]), {}, "softmax over all experts"),
        (
            "router-scores",
            mixture_spec(Experts(count=4, active=2, ffn_size=8, correction=True)),
            {},
            "a softmax over all experts and a bias",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_rewrite_is_off_where_not_valid(name: str, spec: ModelSpec, changes: dict[str, str], reason: str) -> None:
    options = replace(OPTIONS, **changes)
    assert name not in dict(rewrites_of(spec, options))
    with pytest.raises(BadInput, match=f"--schedule joined-tasks,{name}: {name} is not valid: .*{reason}"):
        rewrites_of(spec, replace(options, schedule=f"joined-tasks,{name}"))


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(
        UnknownName,
        match="unknown schedule 'fastest': known: baseline, central-choice, early-shift, early-sinks, early-turns",
    ):
        rewrites_of(tiny_spec(), replace(OPTIONS, schedule="fastest"))


def test_a_search_keeps_what_saves_cycles() -> None:
    spec, machine = tiny_spec(), wafer(*MESH, 1 << 20)

    def cycles(program: Program) -> float:
        return Fabric(program, machine, SOFTWARE).decode_cost(9).cycles

    timing = timing_of(machine, SOFTWARE, 1, 9)
    chosen = search(spec, machine, SOFTWARE, OPTIONS, cycles, timing)
    kept = {one.name: one for one in chosen.rewrites}
    assert dict(chosen.choice.rewrites) == {one.name: one.setting for one in chosen.rewrites}
    assert "norm-scales" in kept
    assert "router-scores" not in kept
    plain = replace(chosen.choice, trees=())  # as all except fitted trees, which come last, were tried
    of_plain = cycles(compile_choice(spec, machine, SOFTWARE, chosen.options, plain))
    of_trees = kept.pop("fitted-trees").saved_cycles
    rewrite_cycles = 3 * SOFTWARE.route_rewrite_cycles  # routes of both layers; sums of attention have their own
    assert of_plain - cycles(chosen.program) == pytest.approx(of_trees, abs=rewrite_cycles)  # counted in small
    for name, one in kept.items():
        others = tuple(other for other in plain.rewrites if other[0] != name)
        without = compile_choice(spec, machine, SOFTWARE, chosen.options, replace(plain, rewrites=others))
        assert cycles(without) - of_plain == pytest.approx(one.saved_cycles, abs=rewrite_cycles)
        assert one.saved_cycles > 0
    forced = search(spec, machine, SOFTWARE, replace(OPTIONS, schedule="local-maxima,merged-sums"), cycles, timing)
    assert {one.name for one in forced.rewrites} == {"local-maxima", "merged-sums"}
