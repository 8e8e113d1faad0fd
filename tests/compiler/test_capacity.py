"""Programs that do not fit, and Programs of layers without embedding and head."""

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
from wse.compiler.search.search import fits
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
TOLD = replace(OPTIONS, capacity=REPORT)
CHOICE = Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=5)
ENOUGH, TOO_LITTLE = 1 << 20, 24_000


def compiled(options: Options, sram_bytes: int) -> Program:
    return compile_choice(SPEC, wafer(3, 3, sram_bytes), SOFTWARE, options, CHOICE)


def test_a_report_lays_out_what_would_be_refused_as_if_there_were_enough() -> None:
    with pytest.raises(SramOverflow) as refused:
        compiled(OPTIONS, TOO_LITTLE)
    told, roomy = compiled(TOLD, TOO_LITTLE), compiled(OPTIONS, ENOUGH)
    assert not told.fits
    assert roomy.fits
    assert told.stages[0].sram_top_byte == refused.value.needed > TOO_LITTLE
    assert told.stages == roomy.stages
    assert told.buffers == roomy.buffers
    assert all(np.array_equal(a.steps.fixed, b.steps.fixed) for a, b in zip(told.phases, roomy.phases, strict=True))


def test_fits_says_yes_at_the_last_byte_and_no_one_before() -> None:
    needed = compiled(TOLD, TOO_LITTLE).stages[0].sram_top_byte
    assert compiled(TOLD, needed).fits
    assert not compiled(TOLD, needed - 1).fits
    assert compiled(OPTIONS, needed).fits
    with pytest.raises(SramOverflow):
        compiled(OPTIONS, needed - 1)


def test_with_a_report_nothing_is_cut_to_make_it_fit() -> None:
    machine = wafer(3, 3, TOO_LITTLE)
    program = compile_model(SPEC, machine, SOFTWARE, TOLD)
    assert [phase.tokens for phase in program.prefill] == list(TOLD.prompt_tokens)
    assert not program.fits
    assert not fits(SPEC, machine, SOFTWARE, TOLD), "what fits does not depend on who asks"


def test_the_report_says_that_it_does_not_fit_and_what_is_lacking() -> None:
    program = compiled(TOLD, TOO_LITTLE)
    result = sram_result(program, TOO_LITTLE)
    assert result.fits is False
    assert result.bytes_per_pe["free"] == TOO_LITTLE - program.stages[0].sram_top_byte < 0
    assert sum(result.bytes_per_pe.values()) == TOO_LITTLE
    assert result.kv_capacity_tokens == 0
    assert sram_result(compiled(OPTIONS, ENOUGH), ENOUGH).fits is True


def test_what_does_not_fit_is_never_executed() -> None:
    program = compiled(TOLD, TOO_LITTLE)
    with pytest.raises(WseBug, match=r"needs [\d,]+ of 24,000 bytes on a PE can be timed, not executed"):
        Engine(program, SPEC, tensors(SPEC).__getitem__)


def on_top_of_each_other(state: State) -> State:
    """Place two weights at one address, which the checks must detect."""
    kept = [i for i, b in enumerate(state.buffers) if b.use == "weights"]
    moved = list(state.buffers)
    moved[kept[1]] = replace(moved[kept[1]], address=moved[kept[0]].address)
    return replace(state, buffers=tuple(moved))


def test_everything_else_is_still_checked() -> None:
    on_top_of_each_other.__name__ = "allocate"
    at = [step.__name__ for step in PIPELINE].index("allocate") + 1
    pipeline = (*PIPELINE[:at], on_top_of_each_other, *PIPELINE[at:])
    with pytest.raises(WseBug, match=r"after allocate: .* overlap while both are live"):
        compile_choice(SPEC, wafer(3, 3, TOO_LITTLE), SOFTWARE, TOLD, CHOICE, pipeline)


def test_each_byte_counts_for_the_largest_buffer_on_it() -> None:
    """Compare byte by byte with buffers in ascending order of size."""
    program = compiled(OPTIONS, ENOUGH)
    use: dict[int, str] = {}
    for buffer in sorted(program.buffers, key=lambda b: b.bytes, reverse=True)[::-1]:  # of equal ones the first
        use |= dict.fromkeys(range(buffer.address, buffer.address + buffer.bytes), buffer.use)
    found = stage_bytes(program, 0, ENOUGH)
    top = program.stages[0].sram_top_byte
    counted = Counter(use.get(byte, "buffers") for byte in range(top))  # what no buffer has is for alignment
    assert {name: size for name, size in found.items() if size} == counted | {"free": ENOUGH - top}
    overlapping = sum(buffer.bytes for buffer in program.buffers)
    assert overlapping > len(use), "buffers that are never live together share bytes"


WHOLE = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
ALONE = replace(WHOLE, scope=LAYERS)
MESH = wafer(6, 6, 1 << 20)


def compiled_layers_alone(options: Options) -> Program:
    return compile_choice(SPEC, MESH, SOFTWARE, options, CHOICE)


def test_only_ops_of_layers_are_left_and_their_cycles_are_those_of_the_whole_model() -> None:
    alone, whole = compiled_layers_alone(ALONE), compiled_layers_alone(WHOLE)
    assert set(alone.op_layers) == set(range(SPEC.layer_count))
    of_layers = [name for name, layer in zip(whole.op_names, whole.op_layers, strict=True) if layer >= 0]
    assert list(alone.op_names) == of_layers
    assert [phase.name for phase in alone.phases] == [phase.name for phase in whole.phases]
    cost, of_whole = (Fabric(p, MESH, SOFTWARE).decode_cost(20) for p in (alone, whole))
    steps = whole.decode.steps
    of_cache = is_of_type(steps, CacheShift) | (steps.kind == StepKind.COMPUTE) & (steps.code == CODES["kv_append"])
    timed = (np.array(whole.op_layers)[steps.op] >= 0) & ~of_cache
    # Routes are rewritten less often where fewer patterns share the colours.
    route_rewrites = alone.decode.steps.route_rewrites.sum() - steps.route_rewrites[timed].sum()
    saved = cost.by_cause.sum() - of_whole.by_cause[timed].sum()
    assert saved == route_rewrites * SOFTWARE.route_rewrite_cycles


def test_equal_groups_divide_the_line() -> None:
    # 6 PEs: two groups of three, or three of two; the divisors 2 and 3 are as near to the root: the smaller.
    pattern = next(
        p for p in compiled_layers_alone(replace(ALONE, groups=EQUAL_GROUPS)).patterns if p.name == "all_reduce"
    )
    assert pattern.line_messages(0)[:, :2].tolist() == [[0, 1], [2, 1], [3, 4], [5, 4], [1, 4], [4, 5], [4, 0]]


def test_layers_alone_are_not_executed() -> None:
    made = tensors(SPEC)
    with pytest.raises(WseBug, match="has only layers"):
        Engine(compiled_layers_alone(ALONE), SPEC, made.__getitem__)
