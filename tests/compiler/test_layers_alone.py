"""Test layers alone, as in published measurements: without head and growing cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, LAYERS, PREFILL, Options
from wse.compiler.pipeline import compile_choice
from wse.errors import WseBug
from wse.program.isa.instructions import CODES
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.patterns import CacheShift
from wse.program.transfers.transfer_types import is_of_type
from wse_mappings.patterns.k_tree import EQUAL_GROUPS

SPEC = tiny_spec()
WHOLE = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
ALONE = replace(WHOLE, scope=LAYERS)
CHOICE = Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=5)
MESH = wafer(6, 6, 1 << 20)


def compiled(options: Options) -> Program:
    return compile_choice(SPEC, MESH, SOFTWARE, options, CHOICE)


def test_only_ops_of_layers_are_left_and_their_cycles_are_those_of_the_whole_model() -> None:
    alone, whole = compiled(ALONE), compiled(WHOLE)
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


def test_the_phases_are_those_that_are_asked_for() -> None:
    assert [p.name for p in compiled(replace(ALONE, phases=(DECODE,))).phases] == [DECODE]
    only = compiled(replace(ALONE, phases=(PREFILL,)))
    assert [p.name for p in only.prefill] == [PREFILL] == [p.name for p in only.phases]


def test_equal_groups_divide_the_line() -> None:
    # 6 PEs: two groups of three, or three of two; the divisors 2 and 3 are as near to the root: the smaller.
    pattern = next(p for p in compiled(replace(ALONE, groups=EQUAL_GROUPS)).patterns if p.name == "all_reduce")
    assert pattern.line_messages(0)[:, :2].tolist() == [[0, 1], [2, 1], [3, 4], [5, 4], [1, 4], [4, 5], [4, 0]]


def test_layers_alone_are_not_executed() -> None:
    made = tensors(SPEC)
    with pytest.raises(WseBug, match="has only layers"):
        Engine(compiled(ALONE), SPEC, made.__getitem__)
