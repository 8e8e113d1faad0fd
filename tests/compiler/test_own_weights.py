"""Test prefill with weights of its own: tiles, rounds as in the source, and the search."""

from dataclasses import replace

import numpy as np
import pytest
from compiled import compile_model
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import LAYERS, MESH_GEMM_OWN, PREFILL, PREFILL_PRODUCTS, PRODUCT, Options
from wse.compiler.pipeline import compile_choice
from wse.errors import BadMesh, UnknownName
from wse.models.spec import ModelSpec
from wse.program.isa.instructions import KERNELS
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.schedule import Arrival

ONE_HEAD = tiny_spec(layers=1, heads=1, kv_heads=1, head_size=40)
OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
ALONE = replace(OPTIONS, scope=LAYERS, phases=(PREFILL,))


def compiled(side: int, options: Options = OPTIONS, spec: ModelSpec = ONE_HEAD) -> Program:
    choice = Choice(prefill=MESH_GEMM_OWN, prefill_chunk=9, head_chunk=5)
    return compile_choice(spec, wafer(side, side, 1 << 20), SOFTWARE, options, choice)


def loops(program: Program, phase: Phase) -> list[tuple[int, list[str]]]:
    """Return the iterations and the steps of each loop.

    Steps are names of kernels, or of patterns with their axis. Names of an overlap group are
    joined.
    """
    found = []
    for first, end, iterations in phase.steps.loops:
        steps: list[tuple[int, str]] = []
        for step in range(first, end):
            pattern, axis = int(phase.steps.pattern[step]), "xy"[int(phase.steps.axis[step])]
            told = (
                KERNELS[phase.steps.code[step]].name
                if phase.steps.kind[step] == StepKind.COMPUTE
                else f"{program.patterns[pattern].name} {axis}"
            )
            steps.append((int(phase.steps.overlap[step]), told))
        joined: list[str] = []
        for index, (group, told) in enumerate(steps):
            if index and group >= 0 and group == steps[index - 1][0]:
                joined[-1] += f" | {told}"
            else:
                joined.append(told)
        found.append((int(iterations), joined))
    return found


@pytest.mark.parametrize("side", [2, 5, 6, 9])
def test_a_layer_with_one_head_runs_the_loops_of_its_source(side: int) -> None:
    program = compiled(side, ALONE)
    product = "matmul | ring_shift x | ring_shift y"
    align, back = (side // 2, ["ring_align x"]), (side, [product])
    assert loops(program, program.phases[0]) == [
        align,
        back,  # q
        back,  # k
        back,  # v
        (side, ["matmul_act | ring_shift y", "ring_reduce x", "ring_keep x"]),
        (side // 2, ["ring_align x | ring_align y"]),
        (side, [f"matmul_act{product.removeprefix('matmul')}"]),
        align,
        back,  # o
        align,
        back,  # gate
        back,  # up
        align,
        back,  # down
    ]


def test_a_product_alone_is_one_alignment_and_one_turn_of_the_rings() -> None:
    program = compiled(6, replace(ALONE, scope=PRODUCT))
    assert loops(program, program.phases[0]) == [(3, ["ring_align x"]), (6, ["matmul | ring_shift x | ring_shift y"])]
    assert [tile.name for tile in program.tiles] == ["prefill.product"]


def test_layers_alone_are_padded_to_a_multiple_of_the_mesh_and_models_to_whole_rotary_pairs() -> None:
    """Divide 40 features over 6 columns: 7 each for layers alone, 4 pairs each for models."""
    shapes = [{t.name: (t.outer, t.inner) for t in compiled(6, options).tiles} for options in (ALONE, OPTIONS)]
    assert [found["prefill.layers.0.q"] for found in shapes] == [(7, 7), (7, 8)]
    assert [found["prefill.layers.0.o"] for found in shapes] == [(7, 7), (8, 7)]


def test_all_reduces_of_prefill_are_chains_to_the_centre_and_those_of_decode_are_not() -> None:
    side = 9
    program = compiled(side, replace(OPTIONS, scope=LAYERS))
    chain = k_tree(side, side, Arrival.ADD, broadcast=True, groups=()).messages[:, :2]
    found: dict[str, list[bool]] = {"prefill": [], "decode": []}
    for phase in program.phases:
        for pattern in (program.patterns[code] for code in phase.steps.pattern[is_of_type(phase.steps, AlongLine)]):
            if pattern.name == "all_reduce":
                found[phase.name].append(np.array_equal(pattern.messages[:, :2], chain))
    assert found == {"prefill": [True] * 4, "decode": [False] * 10}


def tried(options: Options, side: tuple[int, int] = (6, 6)) -> list[str]:
    """Return the products that the search tries and that fit."""
    names: list[str] = []

    def cost(program: Program) -> float:
        names.append(program.prefill_name)
        return 0.0

    alone = compile_model(ONE_HEAD, wafer(*side, 1 << 20), SOFTWARE, options, cost)
    return names or [alone.prefill_name]


def test_the_search_tries_it_where_decode_is_not_wanted_or_when_it_is_asked_for() -> None:
    assert tried(OPTIONS) == ["mesh-gemm", "thin-gemm"]
    assert tried(replace(OPTIONS, phases=(PREFILL,))) == list(PREFILL_PRODUCTS)
    assert tried(replace(OPTIONS, phases=(PREFILL,)), (6, 5)) == ["thin-gemm"]
    for product in PREFILL_PRODUCTS:
        assert tried(replace(OPTIONS, prefill=product)) == [product]


def test_products_that_cannot_be_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"unknown product for prefill 'mesh-gem': did you mean 'mesh-gemm'\?"):
        compile_model(ONE_HEAD, wafer(6, 6), SOFTWARE, replace(OPTIONS, prefill="mesh-gem"))
    with pytest.raises(BadMesh, match=r"mesh-gemm-own-weights needs square regions, and those on 6x5 PEs are not"):
        compile_model(ONE_HEAD, wafer(6, 5), SOFTWARE, replace(OPTIONS, prefill=MESH_GEMM_OWN))
