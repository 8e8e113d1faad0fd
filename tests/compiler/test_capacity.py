"""Tests of Programs that do not fit in SRAM, and of Programs of layers without embedding and head."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from compiled import compile_model
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import LAYERS, REPORT, Options
from wse.compiler.passes.allocate import SramOverflow
from wse.compiler.pipeline import PIPELINE, compile_choice
from wse.compiler.search.feasibility import fits
from wse.compiler.state import State
from wse.errors import WseBug
from wse.program.isa.instructions import CODES
from wse.program.memory_use import stage_bytes
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.patterns import CacheShift
from wse.program.transfers.transfer_types import is_of_type
from wse.studies.results.sram import sram_result
from wse_mappings.patterns.k_tree import EQUAL_GROUPS

SPEC = tiny_spec()
OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
REPORTING = replace(OPTIONS, capacity=REPORT)
CHOICE = Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=5)
ENOUGH, TOO_LITTLE = 1 << 20, 24_000


def compiled(options: Options, sram_bytes: int) -> Program:
    """Return a Program on 3x3 PEs with ``sram_bytes`` each."""
    return compile_choice(SPEC, wafer(3, 3, sram_bytes), SOFTWARE, options, CHOICE)


def test_reported_program_has_the_layout_that_enough_sram_would_give() -> None:
    with pytest.raises(SramOverflow) as refused:
        compiled(OPTIONS, TOO_LITTLE)
    reported, with_enough_sram = compiled(REPORTING, TOO_LITTLE), compiled(OPTIONS, ENOUGH)
    assert not reported.fits
    assert with_enough_sram.fits
    assert reported.stages[0].sram_top_byte == refused.value.needed > TOO_LITTLE
    assert reported.stages == with_enough_sram.stages
    assert reported.buffers == with_enough_sram.buffers
    assert all(
        np.array_equal(a.steps.fixed, b.steps.fixed)
        for a, b in zip(reported.phases, with_enough_sram.phases, strict=True)
    )


def test_program_fits_with_exactly_the_needed_bytes() -> None:
    needed = compiled(REPORTING, TOO_LITTLE).stages[0].sram_top_byte
    assert compiled(REPORTING, needed).fits
    assert not compiled(REPORTING, needed - 1).fits
    assert compiled(OPTIONS, needed).fits
    with pytest.raises(SramOverflow):
        compiled(OPTIONS, needed - 1)


def test_reported_program_is_not_cut_into_chunks_to_fit() -> None:
    machine = wafer(3, 3, TOO_LITTLE)
    program = compile_model(SPEC, machine, SOFTWARE, REPORTING)
    assert [phase.tokens for phase in program.prefill] == list(REPORTING.prompt_tokens)
    assert not program.fits
    assert not fits(SPEC, machine, SOFTWARE, REPORTING), "`fits` ignores the option capacity"


def test_report_says_that_a_program_does_not_fit_and_how_many_bytes_are_missing() -> None:
    program = compiled(REPORTING, TOO_LITTLE)
    result = sram_result(program, TOO_LITTLE)
    assert result.fits is False
    assert result.bytes_per_pe["free"] == TOO_LITTLE - program.stages[0].sram_top_byte < 0
    assert sum(result.bytes_per_pe.values()) == TOO_LITTLE
    assert result.kv_capacity_tokens == 0
    assert sram_result(compiled(OPTIONS, ENOUGH), ENOUGH).fits is True


def test_program_that_does_not_fit_is_not_executed() -> None:
    program = compiled(REPORTING, TOO_LITTLE)
    with pytest.raises(WseBug, match=r"needs [\d,]+ of 24,000 bytes on a PE can be timed, not executed"):
        Engine(program, SPEC, tensors(SPEC).__getitem__)


def with_overlapping_weights(state: State) -> State:
    """Place two weights at one address, which the checks must detect."""
    weight_indices = [i for i, b in enumerate(state.buffers) if b.use == "weights"]
    moved = list(state.buffers)
    moved[weight_indices[1]] = replace(moved[weight_indices[1]], address=moved[weight_indices[0]].address)
    return replace(state, buffers=tuple(moved))


def test_reported_program_is_still_checked_for_overlaps() -> None:
    with_overlapping_weights.__name__ = "allocate"
    at = [step.__name__ for step in PIPELINE].index("allocate") + 1
    pipeline = (*PIPELINE[:at], with_overlapping_weights, *PIPELINE[at:])
    with pytest.raises(WseBug, match=r"after allocate: .* overlap while both are live"):
        compile_choice(SPEC, wafer(3, 3, TOO_LITTLE), SOFTWARE, REPORTING, CHOICE, pipeline)


def test_bytes_count_for_the_largest_buffer_on_them() -> None:
    """Compare byte by byte with buffers in ascending order of size."""
    program = compiled(OPTIONS, ENOUGH)
    use: dict[int, str] = {}
    # Of buffers of equal size, the first one is assigned last.
    for buffer in sorted(program.buffers, key=lambda b: b.bytes, reverse=True)[::-1]:
        use |= dict.fromkeys(range(buffer.address, buffer.address + buffer.bytes), buffer.use)
    found = stage_bytes(program, 0, ENOUGH)
    top = program.stages[0].sram_top_byte
    counted = Counter(use.get(byte, "buffers") for byte in range(top))  # bytes without a buffer align others
    assert {name: size for name, size in found.items() if size} == counted | {"free": ENOUGH - top}
    overlapping = sum(buffer.bytes for buffer in program.buffers)
    assert overlapping > len(use), "buffers that are never live together share bytes"


LAYERS_ONLY = replace(OPTIONS, scope=LAYERS)
MESH = wafer(6, 6, 1 << 20)


def compiled_on_6x6(options: Options) -> Program:
    return compile_choice(SPEC, MESH, SOFTWARE, options, CHOICE)


def test_layers_only_have_the_ops_and_cycles_of_layers_of_the_full_model() -> None:
    layers_only, full_model = compiled_on_6x6(LAYERS_ONLY), compiled_on_6x6(OPTIONS)
    assert set(layers_only.op_layers) == set(range(SPEC.layer_count))
    layer_ops = [name for name, layer in zip(full_model.op_names, full_model.op_layers, strict=True) if layer >= 0]
    assert list(layers_only.op_names) == layer_ops
    assert [phase.name for phase in layers_only.phases] == [phase.name for phase in full_model.phases]
    cost, full_cost = (Fabric(p, MESH, SOFTWARE).decode_cost(20) for p in (layers_only, full_model))
    steps = full_model.decode.steps
    is_cache_step = is_of_type(steps, CacheShift) | (steps.kind == StepKind.COMPUTE) & (
        steps.code == CODES["kv_append"]
    )
    timed = (np.array(full_model.op_layers)[steps.op] >= 0) & ~is_cache_step
    # Routes are rewritten less often where fewer patterns share the colours.
    route_rewrites = layers_only.decode.steps.route_rewrites.sum() - steps.route_rewrites[timed].sum()
    saved = cost.by_cause.sum() - full_cost.by_cause[timed].sum()
    assert saved == route_rewrites * SOFTWARE.route_rewrite_cycles


def test_equal_groups_use_the_smaller_divisor_near_the_square_root() -> None:
    # The divisors 2 and 3 of 6 PEs are equally near to the square root, so there are two groups of three PEs.
    pattern = next(
        p for p in compiled_on_6x6(replace(LAYERS_ONLY, groups=EQUAL_GROUPS)).patterns if p.name == "all_reduce"
    )
    assert pattern.line_messages(0)[:, :2].tolist() == [[0, 1], [2, 1], [3, 4], [5, 4], [1, 4], [4, 5], [4, 0]]


def test_layers_only_are_not_executed() -> None:
    weights_by_name = tensors(SPEC)
    with pytest.raises(WseBug, match="has only layers"):
        Engine(compiled_on_6x6(LAYERS_ONLY), SPEC, weights_by_name.__getitem__)
