"""Tests of the compiler passes together: weights are stored once, and faults are found after the pass at fault."""

from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.arrays import I64
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.weights import store_weights
from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, MESH_GEMM_OWN, PREFILL, Options
from wse.compiler.pipeline import PIPELINE, compile_choice
from wse.compiler.state import State
from wse.errors import WseBug
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import StepKind
from wse_mappings.mesh.placement import Rect

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))


def compiled(mesh: tuple[int, int], wafers: int, stages: int, *, tied: bool = True) -> Program:
    """Return a Program with ``stages`` regions per wafer; one square region uses MeshGEMM for prefill."""
    is_square = mesh[0] == mesh[1] and stages == 1
    prefill = "mesh-gemm" if is_square else "thin-gemm"
    choice = Choice(per_band=stages, prefill=prefill, prefill_chunk=9, head_chunk=5)
    options = replace(OPTIONS, wafers=wafers, mapping="region" if stages == 1 else "pipeline")
    return compile_choice(tiny_spec(tied=tied), wafer(*mesh, 1 << 20), SOFTWARE, options, choice)


def stored_counts(program: Program, spec: ModelSpec) -> tuple[dict[str, I64], float]:
    """Store weights with distinct values, and count how often each occurs in SRAM.

    Returns:
        The counts by tensor, in the shape of the tensor, and the fraction of zeros (padding) among all stored elements.
    """
    numbers, offset = {}, 1
    for name, tensor in tensors(spec).items():
        numbers[name] = (offset + np.arange(tensor.size)).reshape(tensor.shape).astype(np.float32)
        offset += tensor.size
    arenas = {
        i: Arena(s.rect.rows, s.rect.cols, s.sram_base_byte, s.sram_top_byte) for i, s in enumerate(program.stages)
    }
    store_weights(program, spec, numbers.__getitem__, arenas)
    matrices = [tile for tile in program.tiles if tile.view == "wgt"]
    stored = [arenas[tile.stage].read("float32", tile.address, tile.outer * tile.inner).ravel() for tile in matrices]
    counts = np.bincount(np.concatenate(stored).astype(np.int64), minlength=offset)
    return {name: counts[tensor.astype(np.int64)] for name, tensor in numbers.items()}, counts[0] / counts.sum()


@pytest.mark.parametrize(
    ("mesh", "wafers", "stages", "tied"),
    [((3, 3), 1, 1, True), ((5, 4), 1, 1, False), ((4, 7), 1, 2, True), ((13, 3), 2, 1, False)],
)
def test_elements_are_stored_by_exactly_one_pe(mesh: tuple[int, int], wafers: int, stages: int, *, tied: bool) -> None:
    program = compiled(mesh, wafers, stages, tied=tied)
    cols = {part.tensor: program.stages[tile.stage].rect.cols for tile in program.tiles for part in tile.parts}
    for name, counts in stored_counts(program, tiny_spec(tied=tied))[0].items():
        copies = cols[name] if counts.ndim == 1 else 1  # every PE of a row stores its gains
        assert (counts == copies).all(), name


def test_prompt_with_a_cached_prefix_costs_the_chunks_after_the_prefix() -> None:
    choice = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=5)
    machine, options = wafer(4, 4, 1 << 20), replace(OPTIONS, prompt_tokens=(21,))
    programs = [
        compile_choice(tiny_spec(), machine, SOFTWARE, replace(options, prefix_tokens=prefix), choice)
        for prefix in (0, 8)
    ]
    chunks = [[(phase.cached, phase.tokens) for phase in program.prefill] for program in programs]
    assert chunks[1] == chunks[0][2:] == [(8, 4), (12, 4), (16, 4), (20, 1)]
    whole, rest = (
        [Fabric(program, machine, SOFTWARE).prefill_cost(n).cycles for n in range(len(program.prefill))]
        for program in programs
    )
    assert rest[1:] == whole[3:]
    assert rest[0] > 5 * whole[2]  # only the first chunk that is processed waits for the host


@pytest.mark.parametrize(
    ("phases", "side", "heads"),
    [((PREFILL,), 5, 1), ((PREFILL,), 6, 6), ((DECODE,), 3, 6), ((PREFILL, DECODE), 1, 1), ((PREFILL, DECODE), 5, 6)],
)
def test_phases_with_own_weights_store_each_element_of_a_layer_once(
    phases: tuple[str, ...], side: int, heads: int
) -> None:
    spec = tiny_spec(layers=2, heads=heads, kv_heads=1 if heads == 1 else 2)
    choice = Choice(prefill=MESH_GEMM_OWN, prefill_chunk=9, head_chunk=5)
    program = compile_choice(spec, wafer(side, side, 1 << 20), SOFTWARE, replace(OPTIONS, phases=phases), choice)
    stored, zeros = stored_counts(program, spec)
    for name, counts in stored.items():
        copies = (side if counts.ndim == 1 else 1) * (len(phases) if name.startswith("layers.") else 1)
        assert (counts == copies).all(), name
    assert program.padding_fraction == pytest.approx(zeros)


def test_prefill_round_multiplies_and_shifts_at_the_same_time() -> None:
    phase = compiled((5, 5), 1, 1).prefill[0]
    loops = [range(first, end) for first, end, iterations in phase.steps.loops if iterations == 5]
    groups = [{int(phase.steps.overlap[s]) for s in steps} for steps in loops]
    overlapped_loops = [
        steps for steps, group in zip(loops, groups, strict=True) if len(group) == 1 and -1 not in group
    ]
    kinds = [sorted(int(phase.steps.kind[s]) for s in steps) for steps in overlapped_loops]
    assert kinds == [[StepKind.COMPUTE, StepKind.TRANSFER, StepKind.TRANSFER]] * 4, "q k v and gate up of two layers"


def test_digest_depends_on_the_program() -> None:
    one, same, other = (
        compiled((3, 4), 1, 1).digest(),
        compiled((3, 4), 1, 1).digest(),
        compiled((4, 3), 1, 1).digest(),
    )
    assert one == same != other


def with_overlapping_stages(state: State) -> State:
    """Place every stage on the rectangle of the first one, which the checks must detect."""
    first = state.stages[0].rect
    return replace(state, stages=tuple(replace(s, rect=first, wafer=0) for s in state.stages))


def with_stage_outside_the_mesh(state: State) -> State:
    """Place a stage outside the mesh, which the checks must detect."""
    moved = replace(state.stages[0], rect=Rect(3, 3, *state.stages[0].rect[2:]))
    return replace(state, stages=(moved, *state.stages[1:]))


@pytest.mark.parametrize(
    ("faulty_pass", "message"), [(with_overlapping_stages, "overlap"), (with_stage_outside_the_mesh, "leaves the mesh")]
)
def test_faulty_placement_is_found_after_its_pass(faulty_pass: object, message: str) -> None:
    faulty_pass.__name__ = "place"  # type: ignore[attr-defined]
    at = [step.__name__ for step in PIPELINE].index("place") + 1
    pipeline = (*PIPELINE[:at], faulty_pass, *PIPELINE[at:])
    choice = Choice(per_band=2, prefill="thin-gemm", prefill_chunk=9, head_chunk=5)
    options = replace(OPTIONS, mapping="pipeline")
    with pytest.raises(WseBug, match=f"after place: .*{message}"):
        compile_choice(tiny_spec(), wafer(4, 8, 1 << 20), SOFTWARE, options, choice, pipeline)  # type: ignore[arg-type]
