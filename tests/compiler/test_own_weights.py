"""Tests of prefill with its own weights: tiles, the loops of the published algorithm, and the search."""

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
from wse.program.program import Program
from wse.program.steps import Phase, StepKind
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.schedule import Arrival

ONE_HEAD = tiny_spec(layers=1, heads=1, kv_heads=1, head_size=40)
OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
LAYERS_ONLY = replace(OPTIONS, scope=LAYERS, phases=(PREFILL,))


def compiled(side: int, options: Options = OPTIONS, spec: ModelSpec = ONE_HEAD) -> Program:
    """Return a Program on ``side`` x ``side`` PEs whose prefill has its own weights."""
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
            name = (
                KERNELS[phase.steps.code[step]].name
                if phase.steps.kind[step] == StepKind.COMPUTE
                else f"{program.patterns[pattern].name} {axis}"
            )
            steps.append((int(phase.steps.overlap[step]), name))
        joined: list[str] = []
        for index, (group, name) in enumerate(steps):
            if index and group >= 0 and group == steps[index - 1][0]:
                joined[-1] += f" | {name}"
            else:
                joined.append(name)
        found.append((int(iterations), joined))
    return found


@pytest.mark.parametrize("side", [2, 5])
def test_layer_with_one_head_runs_the_published_loops(side: int) -> None:
    program = compiled(side, LAYERS_ONLY)
    product = "matmul | ring_shift x | ring_shift y"
    align, product_loop = (side // 2, ["ring_align x"]), (side, [product])
    assert loops(program, program.phases[0]) == [
        align,
        product_loop,  # q
        product_loop,  # k
        product_loop,  # v
        (side, ["matmul_act | ring_shift y", "ring_reduce x", "ring_keep x"]),
        (side // 2, ["ring_align x | ring_align y"]),
        (side, [f"matmul_act{product.removeprefix('matmul')}"]),
        align,
        product_loop,  # o
        align,
        product_loop,  # gate
        product_loop,  # up
        align,
        product_loop,  # down
    ]


def test_single_product_is_one_alignment_and_one_round_trip_of_the_rings() -> None:
    program = compiled(6, replace(LAYERS_ONLY, scope=PRODUCT))
    assert loops(program, program.phases[0]) == [(3, ["ring_align x"]), (6, ["matmul | ring_shift x | ring_shift y"])]
    assert [tile.name for tile in program.tiles] == ["prefill.product"]


def test_layers_only_are_padded_to_the_mesh_and_models_to_rotary_pairs() -> None:
    """40 features are divided over 6 columns: 7 features each for layers only, 4 rotary pairs each for full models."""
    shapes = [{t.name: (t.outer, t.inner) for t in compiled(6, options).tiles} for options in (LAYERS_ONLY, OPTIONS)]
    assert [found["prefill.layers.0.q"] for found in shapes] == [(7, 7), (7, 8)]
    assert [found["prefill.layers.0.o"] for found in shapes] == [(7, 7), (8, 7)]


def test_all_reduces_are_chains_in_prefill_and_trees_in_decode() -> None:
    side = 9
    program = compiled(side, replace(OPTIONS, scope=LAYERS))
    chain = k_tree(side, side, Arrival.ADD, broadcast=True, groups=()).messages[:, :2]
    found: dict[str, list[bool]] = {"prefill": [], "decode": []}
    for phase in program.phases:
        for pattern in (program.patterns[code] for code in phase.steps.pattern[is_of_type(phase.steps, AlongLine)]):
            if pattern.name == "all_reduce":
                found[phase.name].append(np.array_equal(pattern.messages[:, :2], chain))
    assert found == {"prefill": [True] * 4, "decode": [False] * 10}


def tried_products(options: Options, side: tuple[int, int] = (6, 6)) -> list[str]:
    """Return the products that the search tries and that fit."""
    names: list[str] = []

    def cost(program: Program) -> float:
        names.append(program.prefill_name)
        return 0.0

    program = compile_model(ONE_HEAD, wafer(*side, 1 << 20), SOFTWARE, options, cost)
    return names or [program.prefill_name]


def test_search_tries_own_weights_without_decode_or_on_request() -> None:
    assert tried_products(OPTIONS) == ["mesh-gemm", "thin-gemm"]
    assert tried_products(replace(OPTIONS, phases=(PREFILL,))) == list(PREFILL_PRODUCTS)
    assert tried_products(replace(OPTIONS, phases=(PREFILL,)), (6, 5)) == ["thin-gemm"]
    for product in PREFILL_PRODUCTS:
        assert tried_products(replace(OPTIONS, prefill=product)) == [product]


def test_unknown_or_impossible_products_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"unknown product for prefill 'mesh-gem': did you mean 'mesh-gemm'\?"):
        compile_model(ONE_HEAD, wafer(6, 6), SOFTWARE, replace(OPTIONS, prefill="mesh-gem"))
    with pytest.raises(BadMesh, match=r"mesh-gemm-own-weights needs square regions, and those on 6x5 PEs are not"):
        compile_model(ONE_HEAD, wafer(6, 5), SOFTWARE, replace(OPTIONS, prefill=MESH_GEMM_OWN))
