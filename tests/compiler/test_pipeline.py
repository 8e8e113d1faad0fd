"""Test the passes together: each violation of a rule is detected at the pass that caused it."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.weights import store_weights
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import PIPELINE, compile_choice
from wse.compiler.state import State
from wse.errors import WseBug
from wse.models.graph import op_graph, ops_in_order
from wse.program.program import Program
from wse.program.steps import StepKind
from wse_mappings.mesh.placement import Rect

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
SHAPES = [((1, 1), 1, 1), ((3, 3), 1, 1), ((5, 4), 1, 1), ((4, 7), 1, 2), ((9, 9), 2, 1), ((13, 3), 2, 1)]


def compiled(mesh: tuple[int, int], wafers: int, stages: int, *, tied: bool = True, prefill: str = "") -> Program:
    square = mesh[0] == mesh[1] and stages == 1
    choice = Choice(
        per_band=stages,
        prefill=prefill or ("mesh-gemm" if square else "thin-gemm"),
        prefill_chunk=9,
        head_chunk=5,
    )
    options = replace(OPTIONS, wafers=wafers, mapping="region" if stages == 1 else "pipeline")
    return compile_choice(tiny_spec(tied=tied), wafer(*mesh, 1 << 20), SOFTWARE, options, choice)


def test_the_graph_is_acyclic_and_its_order_respects_every_edge() -> None:
    graph = op_graph(tiny_spec())
    assert nx.is_directed_acyclic_graph(graph)
    place = {op.name: i for i, op in enumerate(ops_in_order(graph))}
    assert all(place[a] < place[b] for a, b in graph.edges)
    assert next(iter(place)) == "embedding"
    assert list(place)[-1] == "head"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("mesh", "wafers", "stages"), SHAPES)
def test_elements_are_held_by_exactly_one_pe(mesh: tuple[int, int], wafers: int, stages: int, *, tied: bool) -> None:
    """Store weights that are all different, and count how often each is found in SRAM."""
    program, spec = compiled(mesh, wafers, stages, tied=tied), tiny_spec(tied=tied)
    numbers, offset = {}, 1
    for name, tensor in tensors(spec).items():
        numbers[name] = (offset + np.arange(tensor.size)).reshape(tensor.shape).astype(np.float32)
        offset += tensor.size
    arenas = {
        i: Arena(s.rect.rows, s.rect.cols, s.sram_base_byte, s.sram_top_byte) for i, s in enumerate(program.stages)
    }
    store_weights(program, spec, numbers.__getitem__, arenas)
    seen = np.zeros(offset, np.int64)
    for tile in program.tiles:
        if tile.view == "wgt":
            held = arenas[tile.stage].read("float32", tile.address, tile.outer * tile.inner)
            np.add.at(seen, held.astype(np.int64).ravel(), 1)
    cols = {part.tensor: program.stages[tile.stage].rect.cols for tile in program.tiles for part in tile.parts}
    for name, tensor in numbers.items():
        copies = cols[name] if tensor.ndim == 1 else 1  # a norm's gain is held by every PE of its row
        assert (seen[tensor.astype(np.int64)] == copies).all(), name


def test_a_prefill_round_multiplies_and_shifts_at_the_same_time() -> None:
    phase = compiled((5, 5), 1, 1).prefill[0]
    loops = [range(first, end) for first, end, iterations in phase.steps.loops if iterations == 5]
    groups = [{int(phase.steps.overlap[s]) for s in steps} for steps in loops]
    together = [steps for steps, group in zip(loops, groups, strict=True) if len(group) == 1 and -1 not in group]
    kinds = [sorted(int(phase.steps.kind[s]) for s in steps) for steps in together]
    assert kinds == [[StepKind.COMPUTE, StepKind.TRANSFER, StepKind.TRANSFER]] * 4, "q k v and gate up of two layers"


def overlapping(state: State) -> State:
    """Place every stage on the rectangle of the first one, which the checks must detect."""
    first = state.stages[0].rect
    return replace(state, stages=tuple(replace(s, rect=first, wafer=0) for s in state.stages))


def outside(state: State) -> State:
    """Place a stage outside the mesh, which the checks must detect."""
    moved = replace(state.stages[0], rect=Rect(3, 3, *state.stages[0].rect[2:]))
    return replace(state, stages=(moved, *state.stages[1:]))


@pytest.mark.parametrize(("saboteur", "complaint"), [(overlapping, "overlap"), (outside, "leaves the mesh")])
def test_a_broken_placement_is_caught_at_its_pass(saboteur: object, complaint: str) -> None:
    saboteur.__name__ = "place"  # type: ignore[attr-defined]
    at = [step.__name__ for step in PIPELINE].index("place") + 1
    pipeline = (*PIPELINE[:at], saboteur, *PIPELINE[at:])
    choice = Choice(per_band=2, prefill="thin-gemm", prefill_chunk=9, head_chunk=5)
    options = replace(OPTIONS, mapping="pipeline")
    with pytest.raises(WseBug, match=f"after place: .*{complaint}"):
        compile_choice(tiny_spec(), wafer(4, 8, 1 << 20), SOFTWARE, options, choice, pipeline)  # type: ignore[arg-type]
