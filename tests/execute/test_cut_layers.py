"""Tests of layers cut between regions, and of regions of different heights: logits, words and cycles."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dequantised import dequantised_tensors
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiers import slow_but
from tiny_model import tiny_spec
from wafer_runs import CHOICE, OPTIONS, wafer_run

from wse.backends.fabric.model import Fabric
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.options import MESH_GEMM, MESH_GEMM_OWN, OPTIMIZED
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.errors import BadInput, WseBug
from wse.hardware.spec import WaferSpec
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.cuts.layer_parts import LAYER_PARTS
from wse_mappings.mesh.placement import Rect
from wse_mappings.regions.demand import ListedRegion

OPTIMIZED_OPTIONS = replace(OPTIONS, schedule=OPTIMIZED)
PROMPT = (5, 9, 31, 7, 12, 40, 2)
UPPER, LOWER = Rect(0, 0, 4, 7), Rect(4, 1, 3, 5)
"""Adjacent regions of a wafer with different numbers of rows and columns."""
SAME_ROWS = Rect(0, 0, 3, 7), Rect(3, 1, 3, 5)
"""Adjacent regions of a wafer with the same number of rows."""
SQUARES = Rect(0, 0, 3, 3), Rect(3, 1, 3, 3)
Cut = tuple[tuple[int, int], ...]
CUTS: dict[str, Cut] = {
    "between attention and block": ((1, 1),),
    "in a block": ((1, 4),),
    "a block in three": ((0, 3), (0, 6)),
    "attention, half a block, the rest": ((0, 1), (0, 5), (1, 1)),
}
"""The layer and the part at which each region except the first begins."""


def listed_regions(cut: Cut, layers: int = 2, rects: tuple[Rect, Rect] = (UPPER, LOWER)) -> tuple[ListedRegion, ...]:
    """Return regions that begin where a cut says, two on each wafer."""
    begins = [(0, 0), *cut]
    ends = [(layer + 1, part) if part else (layer, LAYER_PARTS) for layer, part in (*cut, (layers, 0))]
    return tuple(
        ListedRegion(index // 2, rects[index % 2], begin, end, first_part, last_part)
        for index, ((begin, first_part), (end, last_part)) in enumerate(zip(begins, ends, strict=True))
    )


def checked_program(
    spec: Any, cut: Cut, prompts: Any = (PROMPT,), rects: tuple[Rect, Rect] = (UPPER, LOWER), **options: Any
) -> Program:
    """Run a model on regions that share layers, check logits and traffic, and return the Program."""
    regions = listed_regions(cut, rects=rects)
    run = wafer_run(spec, (7, 7), regions[-1].wafer + 1, list(prompts), mapping="pipeline", listed=regions, **options)
    assert [stage.rect for stage in run.program.stages] == [region.rect for region in regions]
    run.check()
    return run.program


@pytest.mark.parametrize("rewritten", [False, True], ids=["baseline", "optimized"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_dense_layer_may_be_cut_anywhere(cut: Cut, *, rewritten: bool) -> None:
    spec = tiny_spec(tied=False)
    checked_program(spec, cut, choice={"rewrites": rewrites_of(spec, OPTIMIZED_OPTIONS)} if rewritten else None)


@pytest.mark.parametrize("prefill", [MESH_GEMM, MESH_GEMM_OWN])
def test_mesh_gemm_runs_on_equal_squares_that_share_a_layer(prefill: str) -> None:
    choice = {"prefill": prefill, "prefill_chunk": 3}
    checked_program(tiny_spec(tied=False), CUTS["in a block"], rects=SQUARES, choice=choice)


@pytest.mark.parametrize("prefill", [MESH_GEMM, MESH_GEMM_OWN])
def test_mesh_gemm_refuses_squares_of_different_sizes(prefill: str) -> None:
    choice = {"prefill": prefill, "prefill_chunk": 4}
    with pytest.raises(WseBug, match="needs square regions of equal size, but one is 2x2 and the first is 4x4"):
        checked_program(tiny_spec(tied=False), ((1, 0),), rects=(Rect(0, 0, 4, 4), Rect(4, 1, 2, 2)), choice=choice)


CUTTABLE = [name for name, experts in MIXTURES.items() if not experts.separate_norms]
"""Mixtures whose output is not normalised as a whole."""


def test_experts_with_separate_norms_stay_whole() -> None:
    with pytest.raises(BadInput, match="a block that is normalised as a whole stays whole"):
        checked_program(mixture_spec(MIXTURES["separate norms"], layers=2), CUTS["in a block"])


@pytest.mark.parametrize("mixture", CUTTABLE)
def test_experts_may_be_cut_in_parts(mixture: str) -> None:
    spec = mixture_spec(MIXTURES[mixture], layers=2)
    checked_program(spec, CUTS["in a block"], choice={"rewrites": rewrites_of(spec, OPTIMIZED_OPTIONS)})


@pytest.mark.parametrize("mixture", CUTTABLE)
@pytest.mark.parametrize("begins", slow_but([((1, 3), (1, 6)), ((1, 1), (1, 5))], ((1, 3), (1, 6))), ids=str)
def test_selected_experts_are_sent_to_later_parts_on_regions_of_equal_rows(begins: Cut, mixture: str) -> None:
    spec = mixture_spec(MIXTURES[mixture], layers=2)  # the second layer has experts
    program = checked_program(spec, begins, rects=SAME_ROWS, choice={"rewrites": rewrites_of(spec, OPTIMIZED_OPTIONS)})
    kernels = Counter(
        KERNELS[code].name for code in program.decode.steps.code[program.decode.steps.kind == StepKind.COMPUTE]
    )
    assert kernels["router_choose"] == 1


def test_joint_blocks_merge_sums_of_experts_and_shared_block_in_all_parts() -> None:
    spec, cut = mixture_spec(MIXTURES["shared"], layers=2), CUTS["in a block"]
    regions = listed_regions(cut)
    separate_steps, merged_steps = (
        wafer_run(
            spec, (7, 7), 1, [PROMPT], steps=0, mapping="pipeline", listed=regions, choice={"rewrites": rewrites}
        ).program.decode.steps
        for rewrites in ((), (("joint-blocks", 1),))
    )
    transfers = [np.bincount(steps.stage[is_of_type(steps, AlongLine)]) for steps in (separate_steps, merged_steps)]
    assert (transfers[0] - transfers[1]).tolist() == [2, 2]  # a sum and its return; the first layer has no experts


@pytest.mark.parametrize("experts", ["distributed", "2", "dedicated"])
def test_parts_of_experts_may_be_placed_in_each_way(experts: str) -> None:
    checked_program(mixture_spec(MIXTURES["shared"], layers=2), CUTS["a block in three"], experts=experts)


def test_quantised_parts_have_separate_groups() -> None:
    spec = replace(tiny_spec(hidden=64, ffn=192, tied=False), dtype="float32")
    options = {"dtype": "int4", "activations": "float32", "source": dequantised_tensors(spec, "int4")}
    checked_program(spec, CUTS["attention, half a block, the rest"], **options)


def test_batch_runs_on_cut_layers() -> None:
    checked_program(tiny_spec(tied=False), CUTS["in a block"], [PROMPT, (3, 8)])


SPEC = tiny_spec(layers=3, tied=False)
SEPARATE_REGIONS = (
    ListedRegion(0, Rect(0, 5, 3, 2), 0, 0),  # the embedding only
    ListedRegion(0, Rect(3, 0, 4, 5), 0, 1),  # touches it at a corner
    ListedRegion(1, Rect(2, 4, 5, 3), 1, 3),
    ListedRegion(1, Rect(0, 0, 2, 4), 3, 3),  # the head only
)


def test_unequal_regions_on_two_wafers_give_the_logits_of_the_plain_decoder() -> None:
    run = wafer_run(SPEC, (7, 7), 2, [(5, 9, 31, 7, 12, 40, 2)], mapping="pipeline", listed=SEPARATE_REGIONS)
    assert [stage.rect for stage in run.program.stages] == [region.rect for region in SEPARATE_REGIONS]
    assert [stage.wafer for stage in run.program.stages] == [0, 0, 1, 1]
    run.check()


PROMPTS = [(3, 7, 1, 5, 2), (4, 9)]


def compiled_in_bands(mesh: tuple[int, int], wafers: int, per_band: int) -> tuple[Program, WaferSpec]:
    """Return a Program of two bands of regions on each wafer, and the wafer."""
    machine = wafer(*mesh, 1 << 20)
    options = replace(OPTIONS, mapping="pipeline", wafers=wafers, context=40, schedule=OPTIMIZED)
    return compile_choice(
        tiny_spec(layers=5), machine, SOFTWARE, options, replace(CHOICE, bands=2, per_band=per_band)
    ), machine


@pytest.mark.parametrize(
    ("mesh", "wafers", "per_band", "users"),
    [((12, 4), 1, 1, 1), ((13, 5), 1, 2, 1), ((11, 4), 2, 1, 1), ((11, 4), 2, 1, 2)],
)
def test_logits_and_words_are_right_on_bands_of_different_heights(
    mesh: tuple[int, int], wafers: int, per_band: int, users: int
) -> None:
    options: dict[str, Any] = {
        "choice": {"bands": 2, "per_band": per_band},
        "mapping": "pipeline",
        "schedule": OPTIMIZED,
    }
    run = wafer_run(tiny_spec(layers=5), mesh, wafers, PROMPTS[:users], 9, **options)
    assert len({stage.rect.rows for stage in run.program.stages}) > 1
    run.check()


@pytest.mark.parametrize(("mesh", "layers"), [((11, 4), 3), ((19, 4), 3), ((23, 4), 2)])
def test_vectors_cut_at_groups_are_divided_again_for_regions_of_other_heights(
    mesh: tuple[int, int], layers: int
) -> None:
    """64 features in two groups of int4 are cut into 11, 11 and 10 per group on six rows, else 16 and 16."""
    spec = tiny_spec(hidden=64, layers=layers)
    options: dict[str, Any] = {"dtype": "int4", "activations": "float32", "mapping": "pipeline", "schedule": OPTIMIZED}
    run = wafer_run(spec, mesh, 1, PROMPTS[:1], 5, dequantised_tensors(spec, "int4"), choice={"bands": 2}, **options)
    assert len({stage.rect.rows for stage in run.program.stages}) == 2
    gains = [part.inner for tile in run.program.tiles for part in tile.parts if part.tensor.endswith("norm")]
    assert all((index[:, 0] % 32 == 0).sum() == 2 for index in gains)
    run.check()


@pytest.mark.parametrize(("mesh", "wafers", "per_band"), [((12, 4), 1, 1), ((11, 6), 1, 2), ((11, 4), 2, 1)])
def test_wavelets_use_the_same_links_and_about_the_same_cycles(
    mesh: tuple[int, int], wafers: int, per_band: int
) -> None:
    program, machine = compiled_in_bands(mesh, wafers, per_band)
    fabric = Fabric(program, machine, SOFTWARE)
    for phase, cost, length in (
        (program.prefill[0], fabric.prefill_cost(0), 0),
        (program.decode, fabric.decode_cost(30), 30),
    ):
        run = phase_run(program, phase, [length], machine, SOFTWARE)
        on_mesh = cost.cycles - cost.cause("host") - cost.cause("crossing")
        np.testing.assert_array_equal(run.links, cost.links)
        assert run.cycles == pytest.approx(on_mesh, rel=0.1)
