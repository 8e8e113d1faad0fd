"""Tests of rewrites of the steps of a layer: equal logits, effects, conditions, and choice by the search."""

from dataclasses import replace

import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from timed_search import timing_of
from tiny_model import latent_spec, tiny_spec
from tiny_run import worst_logit_error

from tests.compiler.rewrites.rewritten import (
    BIASED,
    LAYER_NORMS,
    MANY_EXPERTS,
    MESH,
    OPTIONS,
    SHARED,
    kernels_of,
    line_transfer_count,
    program_of,
)
from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE, OPTIMIZED
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.feasibility import fits
from wse.compiler.search.search import search
from wse.errors import BadInput
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS


@pytest.mark.parametrize(
    ("schedule", "spec"),
    [
        ("norm-scales", SHARED),  # a router, a shared block and experts read the vectors
        ("norm-scales", LAYER_NORMS),
        ("norm-scales", replace(SHARED, norm="layer")),  # one LayerNorm is merged; others read the second
        ("norm-scales,shared-activation,joined-tasks", replace(tiny_spec(), norm="layer")),
        ("norm-scales", latent_spec(q_rank=0)),  # a product in parallel with a copy
        ("norm-scales", latent_spec()),  # norms of two vectors in one sum
        ("merged-sums,local-maxima", replace(tiny_spec(), sinks=True)),
        ("early-shift,early-turns,query-scales,joined-tasks", replace(tiny_spec(), head_norm="rms")),
        ("query-gathers,early-turns", latent_spec()),  # three rows per head
        ("merged-sums,local-maxima,early-sinks,joined-tasks", replace(tiny_spec(), sinks=True)),
        ("norm-scales,joint-blocks,shared-activation,joined-tasks", SHARED),
        ("gathers,central-choice", mixture_spec(MIXTURES["not normalised"])),
        ("norm-scales,router-scores,gathers,central-choice,joined-tasks", SHARED),
        ("router-scores,gathers,central-choice", mixture_spec(MIXTURES["softmax"])),
        ("router-scores,gathers,router-copies,central-choice", SHARED),
        ("router-scores,gathers,router-copies", mixture_spec(MIXTURES["softmax"])),
        ("joint-blocks,shared-activation,joint-shares,joined-tasks", SHARED),
        ("norm-scales,shared-activation", tiny_spec()),
        ("shared-exp", replace(tiny_spec(kv_heads=1, heads=4), score_cap=3.0)),
        ("merged-sums,shared-exp,local-maxima", latent_spec()),
        ("picked-heads", latent_spec()),
        ("norm-scales,query-gathers,early-shift", latent_spec(heads=9)),  # one row per head
        ("query-scales", replace(tiny_spec(), head_norm="l2", score_cap=3.0)),
        ("early-shift,query-scales,joined-tasks", replace(tiny_spec(), head_norm="rms", norm_unit_offset=True)),
    ],
    ids=lambda value: value.replace(",", " and ") if isinstance(value, str) else value.family,
)
def test_logits_are_those_of_the_plain_decoder(schedule: str, spec: ModelSpec) -> None:
    mesh = (3, 17) if "shared-exp" in schedule else MESH  # all columns belong to one head group
    mesh = (5, 24) if "router-copies" in schedule else mesh  # columns have three or four copies of router outputs
    assert worst_logit_error(spec, mesh, chunk=4, schedule=schedule) < 1e-5


@pytest.mark.parametrize(
    ("spec", "groups"), [(tiny_spec(), 1), (SHARED, 2), (latent_spec(), 5)], ids=["dense", "mixture", "latent"]
)
def test_logits_do_not_depend_on_the_groups_of_all_reduces(spec: ModelSpec, groups: int) -> None:
    assert worst_logit_error(spec, (9, 11), chunk=4, schedule=OPTIMIZED, groups=groups) < 1e-5


EFFECTS: dict[str, tuple[str, ModelSpec, tuple[int, int], tuple[int, int], dict[str, int]]] = {
    "norms": ("norm-scales", tiny_spec(), MESH, (0, 4), {"gain_sum_squares": 4, "rms_scale_sums": 4, "rms_scale": 1}),
    "layer norms": ("norm-scales", LAYER_NORMS, MESH, (0, 4), {"gain_moments": 4, "moments": 1, "layer_scale": 1}),
    "norms of latent vectors": ("norm-scales", latent_spec(), MESH, (2, 4), {"sum_squares": 3, "rms_scale": 3}),
    "sums of softmax": ("merged-sums", tiny_spec(), MESH, (0, 2), {}),
    "exponentials": ("shared-exp", tiny_spec(kv_heads=1), (3, 17), (-2, 0), {"attention_exp_share": 2}),
    "head groups of unequal columns": ("shared-exp", tiny_spec(), (9, 15), (-2, 0), {"attention_exp_share": 2}),
    "head groups of few columns": ("shared-exp", tiny_spec(), (9, 7), (0, 0), {"attention_exp_share": 0}),
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
"""Schedule, model, mesh, transfers along rows and columns that a token saves, and kernel calls of the token."""


@pytest.mark.parametrize("name", EFFECTS)
def test_rewrites_save_transfers_and_change_kernels(name: str) -> None:
    schedule, spec, mesh, saved, calls = EFFECTS[name]
    baseline, rewritten = (program_of(one, spec, mesh) for one in (BASELINE, schedule))
    assert (
        tuple(line_transfer_count(baseline, axis) - line_transfer_count(rewritten, axis) for axis in (ROWS, COLUMNS))
        == saved
    )
    kernels = kernels_of(rewritten)
    assert {kernel: kernels[kernel] for kernel in calls} == calls


def test_layer_norm_is_not_rewritten_without_sram_for_its_products() -> None:
    low, high = 0, 1 << 20  # SRAM bytes with which the model does not fit, and fits
    while high - low > 32:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(LAYER_NORMS, wafer(*MESH, middle), SOFTWARE, OPTIONS) else (middle, high)
    roomy, tight = (search(LAYER_NORMS, wafer(*MESH, sram), SOFTWARE, OPTIONS) for sram in (1 << 20, high))
    assert "norm-scales" in dict(roomy.choice.rewrites)
    assert tight.choice.rewrites == tuple(one for one in roomy.choice.rewrites if one[0] != "norm-scales")
    names = [{tile.name for tile in found.program.tiles} for found in (tight, roomy)]
    assert len(names[1] - names[0]) == 2 * LAYER_NORMS.layer_count


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
def test_rewrite_is_refused_if_it_is_not_valid(
    name: str, spec: ModelSpec, changes: dict[str, str], reason: str
) -> None:
    options = replace(OPTIONS, **changes)
    assert name not in dict(rewrites_of(spec, options))
    with pytest.raises(BadInput, match=f"--schedule joined-tasks,{name}: {name} is not valid: .*{reason}"):
        rewrites_of(spec, replace(options, schedule=f"joined-tasks,{name}"))


def test_search_keeps_rewrites_that_save_cycles() -> None:
    spec, machine = tiny_spec(), wafer(*MESH, 1 << 20)

    def cycles(program: Program) -> float:
        return Fabric(program, machine, SOFTWARE).decode_cost(9).cycles

    timing = timing_of(machine, SOFTWARE, 1, 9)
    chosen = search(spec, machine, SOFTWARE, OPTIONS, cycles, timing)
    kept_rewrites = {one.name: one for one in chosen.rewrites}
    assert dict(chosen.choice.rewrites) == {one.name: one.setting for one in chosen.rewrites}
    assert "norm-scales" in kept_rewrites
    assert "router-scores" not in kept_rewrites
    plain = replace(chosen.choice, trees=())  # fitted trees are tried last, after all other rewrites
    plain_cycles = cycles(compile_choice(spec, machine, SOFTWARE, chosen.options, plain))
    tree_cycles = kept_rewrites.pop("fitted-trees").saved_cycles
    rewrite_cycles = 3 * SOFTWARE.route_rewrite_cycles  # routes may be rewritten in both layers
    assert plain_cycles - cycles(chosen.program) == pytest.approx(
        tree_cycles, abs=rewrite_cycles
    )  # counted on a reduced model
    for name, one in kept_rewrites.items():
        others = tuple(other for other in plain.rewrites if other[0] != name)
        without = compile_choice(spec, machine, SOFTWARE, chosen.options, replace(plain, rewrites=others))
        assert cycles(without) - plain_cycles == pytest.approx(one.saved_cycles, abs=rewrite_cycles)
        assert one.saved_cycles > 0
    forced = search(spec, machine, SOFTWARE, replace(OPTIONS, schedule="local-maxima,merged-sums"), cycles, timing)
    assert {one.name for one in forced.rewrites} == {"local-maxima", "merged-sums"}
