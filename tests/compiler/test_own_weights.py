"""Test prefill with weights of its own: tiles, rounds as in the source, and the search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.weights import store_weights
from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, LAYERS, MESH_GEMM_OWN, PREFILL, PREFILL_PRODUCTS, PRODUCT, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import compile_model
from wse.errors import BadMesh, UnknownName
from wse.models.spec import ModelSpec
from wse.program.isa.instructions import CODES, KERNELS
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


def place(pe: int, length: int) -> int:
    """Return the position of a PE on a ring that goes out over even PEs and back over odd ones."""
    return [*range(0, length, 2), *reversed(range(1, length, 2))].index(pe)


def blocks(matrix: np.ndarray, side: int) -> np.ndarray:
    """Return a matrix ``[in, out]`` padded with zeros and divided into ``[side, side]`` tiles."""
    rows, cols = (-(-extent // side) for extent in matrix.shape)
    padded = np.zeros((rows * side, cols * side), np.float32)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded.reshape(side, rows, side, cols).swapaxes(1, 2)


@pytest.mark.parametrize("side", [1, 2, 4, 5])
def test_tiles_are_stored_skewed(side: int) -> None:
    """PE (i, j) stores block (k, j): the ring position of k is the sum of those of i and j."""
    program, made = compiled(side), tensors(ONE_HEAD)
    arena = Arena(side, side, program.stages[0].sram_base_byte, program.stages[0].sram_top_byte)
    store_weights(program, ONE_HEAD, made.__getitem__, {0: arena})
    tiles = {tile.name: tile for tile in program.tiles}
    for name in ("gate", "up", "down"):
        tile = tiles[f"prefill.layers.0.{name}"]
        want = blocks(made[f"layers.0.{name}"].T, side)
        held = arena.read("float32", tile.address, tile.outer * tile.inner)
        assert (tile.outer, tile.inner) == want.shape[2:]
        for i in range(side):
            for j in range(side):
                k = next(k for k in range(side) if place(k, side) == (place(i, side) + place(j, side)) % side)
                np.testing.assert_array_equal(held[i, j].reshape(want.shape[2:]), want[k, j])
    gain = tiles["prefill.layers.0.mlp_norm"]
    want = blocks(np.broadcast_to(made["layers.0.mlp_norm"], (side, 40)), side)[:, :, 0]
    np.testing.assert_array_equal(arena.read("float32", gain.address, gain.inner), want)


@pytest.mark.parametrize("heads", [1, 6])
@pytest.mark.parametrize("side", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("phases", [(PREFILL,), (DECODE,), (PREFILL, DECODE)])
def test_every_phase_holds_every_matrix_element_of_a_layer_once(phases: tuple[str, ...], side: int, heads: int) -> None:
    spec = tiny_spec(layers=2, heads=heads, kv_heads=1 if heads == 1 else 2)
    program = compiled(side, replace(OPTIONS, phases=phases), spec)
    numbers, offset = {}, 1
    for name, tensor in tensors(spec).items():
        numbers[name] = (offset + np.arange(tensor.size)).reshape(tensor.shape).astype(np.float32)
        offset += tensor.size
    arena = Arena(side, side, program.stages[0].sram_base_byte, program.stages[0].sram_top_byte)
    store_weights(program, spec, numbers.__getitem__, {0: arena})
    seen = np.zeros(offset, np.int64)
    elements = 0
    for tile in (tile for tile in program.tiles if tile.view == "wgt"):
        held = arena.read("float32", tile.address, tile.outer * tile.inner)
        np.add.at(seen, held.astype(np.int64).ravel(), 1)
        elements += held.size
    for name, tensor in numbers.items():
        copies = (side if tensor.ndim == 1 else 1) * (len(phases) if name.startswith("layers.") else 1)
        assert (seen[tensor.astype(np.int64)] == copies).all(), name
    assert program.padding_fraction == pytest.approx(seen[0] / elements)


def test_a_buffer_made_side_by_side_is_live_from_its_first_part_on() -> None:
    program = compiled(5, ALONE)
    phase = program.phases[0]
    qkv = next(b for b in program.buffers if b.name == "qkv")
    first = next(
        int(phase.steps.loops[i][0]) for i, (_, steps) in enumerate(loops(program, phase)) if "matmul" in steps[0]
    )
    rope = int(np.flatnonzero((phase.steps.kind == StepKind.COMPUTE) & (phase.steps.code == CODES["rope"]))[0])
    assert qkv.live == ((0, first, rope),)


def test_decodes_steps_do_not_depend_on_the_weights_of_prefill() -> None:
    own = compiled(5).decode
    choice = Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=5)
    shared = compile_choice(ONE_HEAD, wafer(5, 5, 1 << 20), SOFTWARE, OPTIONS, choice).decode
    for name in ("kind", "axis", "view", "op", "loop", "overlap"):
        assert np.array_equal(getattr(own.steps, name), getattr(shared.steps, name)), name


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
