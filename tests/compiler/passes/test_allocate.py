"""Tests of allocation: code first, then permanent buffers, then others, without overlaps in any step."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from compiler_states import before, begin
from hypothesis import given
from hypothesis import strategies as st
from session import SOFTWARE, wafer
from tiny_model import latent_spec, tiny_spec

from wse.compiler.check import check
from wse.compiler.passes.allocate import SramOverflow, _Interval, _lowest_address, _Need, allocate, reserved_bytes
from wse.compiler.state import State
from wse.program.isa.instructions import KERNELS
from wse.program.stage import Buffer
from wse.program.steps import StepKind
from wse_mappings.mesh.placement import Rect

WEIGHTS = Buffer(stage=0, name="w", use="weights", address=0, bytes=30_000, element="float32", live=())


def allocated(state: State) -> State:
    """Run the passes up to allocation, check the result, and return it."""
    result = allocate(before("allocate", state))
    check(result, pass_name="allocate")
    return result


def bytes_of(buffer: Buffer) -> tuple[int, int]:
    return buffer.address, buffer.address + buffer.bytes


def are_in_conflict(a: Buffer, b: Buffer) -> bool:
    """Return whether two buffers are live in the same step and overlap.

    A buffer without lifetimes is always live.
    """
    spans = [(x, y) for x in a.live for y in b.live]
    live_together = not a.live or not b.live or any(x[0] == y[0] and x[1] <= y[2] and y[1] <= x[2] for x, y in spans)
    (a_start, a_end), (b_start, b_end) = bytes_of(a), bytes_of(b)
    return live_together and a_start < b_end and b_start < a_end


def test_code_comes_first_then_permanent_then_temporary_buffers() -> None:
    state = allocated(begin((3, 4)))
    code, *others = state.buffers
    reserved = reserved_bytes(wafer(3, 4), SOFTWARE)
    assert (code.use, code.address, code.bytes) == ("code", 0, reserved)
    permanent, temporary = ([b for b in others if bool(b.live) == lives] for lives in (False, True))
    assert min(b.address for b in permanent) == reserved == state.stages[0].sram_base_byte
    assert max(b.address + b.bytes for b in permanent) <= min(b.address for b in temporary)


def in_place_pairs(state: State) -> set[tuple[frozenset[str], tuple[int, int]]]:
    """Return the pairs of buffers that a step may place at the same address, because it overwrites one with the other.

    Each item has the names of both buffers, and the phase and the step.
    """
    found = set()
    for number, phase in enumerate(state.phases):
        for run in phase.steps.runs:
            for index, step in enumerate(run.block.steps):
                for places in KERNELS[step.code].in_place if step.kind == StepKind.COMPUTE else ():
                    names = frozenset(step.operands[place].buffer.name for place in places)
                    found.add((names, (number, run.step + index)))
    return found


def test_buffers_of_one_step_overlap_only_if_one_is_computed_in_place() -> None:
    state = allocated(begin((3, 4)))
    in_place, conflicts = in_place_pairs(state), [p for p in combinations(state.buffers, 2) if are_in_conflict(*p)]
    assert conflicts
    for a, b in conflicts:
        assert a.address == b.address
        for phase, first, last in a.live:
            common = [range(max(first, begin), min(last, end) + 1) for p, begin, end in b.live if p == phase]
            for step in (step for steps in common for step in steps):
                assert (frozenset((a.name, b.name)), (phase, step)) in in_place
                assert sum(span[2] == step for buffer in (a, b) for span in buffer.live if span[0] == phase) == 1
    assert max(b.address + b.bytes for b in state.buffers) <= state.stages[0].sram_top_byte


def test_every_buffer_has_an_aligned_address() -> None:
    state = allocated(begin((8, 5), dtype="float16"))  # 5 features on a PE, ten bytes
    assert state.addresses is not None
    assert all(b.address % 4 == 0 for b in state.buffers)
    assert {tile.buffer for tile in state.tiles} <= {*state.addresses}


def test_other_order_of_buffers_is_used_with_too_little_sram() -> None:
    """With less SRAM than the first order needs, another order is used; otherwise the first one."""
    spec, mesh = latent_spec(), (2, 9)
    with_enough_sram = allocated(begin(mesh, spec))
    top = with_enough_sram.stages[0].sram_top_byte
    exact = allocated(begin(mesh, spec, sram_bytes=top))
    assert exact.buffers == with_enough_sram.buffers
    with_less_sram = allocated(begin(mesh, spec, sram_bytes=top - 4))
    assert with_less_sram.stages[0].sram_top_byte < top
    with pytest.raises(SramOverflow):
        allocated(begin(mesh, spec, sram_bytes=top // 2))


@given(
    st.lists(st.tuples(st.integers(5, 40), st.integers(0, 9), st.integers(0, 15)), max_size=10),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 15)), min_size=1, max_size=3),
)
def test_lowest_address_without_conflict_is_found(
    placed: list[tuple[int, int, int]], needed: list[tuple[int, int]]
) -> None:
    def has_conflict(address: int) -> bool:
        return any(
            address < begin + length and begin < address + size and live & during
            for begin, length, live in placed
            for size, during in needed
        )

    first = next(address for address in range(5, 60) if not has_conflict(address))
    intervals = [_Interval(begin, begin + length, live) for begin, length, live in placed]
    assert _lowest_address(intervals, [_Need(size, during) for size, during in needed], start=5) == first


@pytest.mark.parametrize(
    ("changes", "largest_use"),
    [
        ({}, "weights"),
        ({"context": 4_000}, "KV cache"),
        ({"prompt_tokens": (1,) * 900, "context": 1}, "activations and buffers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_largest_use_of_sram_is_reported(changes: dict[str, Any], largest_use: str) -> None:
    spec = tiny_spec(ffn=4000) if largest_use == "weights" else tiny_spec()
    state = before("allocate", begin((1, 1), spec, sram_bytes=24_000, **changes))
    with pytest.raises(SramOverflow, match=largest_use) as refusal:
        allocate(state)
    assert refusal.value.largest_use == largest_use
    assert "every PE of stage 0 (layers 0 to 1, embedding, head; first: row 0, col 0) needs" in str(refusal.value)


def test_overflow_on_a_transposed_mesh_is_reported_in_coordinates_of_the_wafer() -> None:
    state = before("allocate", begin((3, 2), tiny_spec(ffn=4000), sram_bytes=24_000))
    first_stage = replace(state.stages[0], rect=Rect(1, 0, 2, 1))
    state = replace(state, choice=replace(state.choice, is_transposed=True), stages=(first_stage, *state.stages[1:]))
    with pytest.raises(SramOverflow, match=r"on 1x2 PEs: .* first: row 0, col 1\)"):
        raise SramOverflow(state, 0, 30_000, [WEIGHTS])
