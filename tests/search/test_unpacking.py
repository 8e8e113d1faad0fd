"""Test unpacking more codes at a time: as many as save cycles and fit, with the reported saving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from timed_search import AFTER, OPTIONS, machine_of, timing_of
from tiny_model import tiny_spec

from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE, WIDE_UNPACKING
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import Compilation, search
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program

SPEC = replace(tiny_spec(hidden=1024, heads=8, kv_heads=4, head_size=32, ffn=960, vocab=500), dtype="bfloat16")
CODED = replace(OPTIONS, dtype="int4", activations="bfloat16", capacity="refuse")


def compilation(machine: WaferSpec | None = None, **options: Any) -> Compilation:
    plain, software = machine_of(mesh=(12, 20))
    machine = machine or plain
    return search(SPEC, machine, software, replace(CODED, **options), timing=timing_of(machine, software))


def max_codes(program: Program) -> int:
    """Return the maximum number of codes that a product of a decoded token unpacks at a time."""
    steps = program.decode.steps
    products = [
        KERNELS[steps.code[s]].by_name(steps.operands(s, program.cache_slots(AFTER)))
        for s in range(len(steps))
        if steps.computes(s) and "codes" in KERNELS[steps.code[s]].index
    ]
    return max(each["rows"] * each["N"] for each in products)


def test_what_more_codes_save_is_what_a_token_takes_less() -> None:
    compiled, (machine, software) = compilation(), machine_of(mesh=(12, 20))
    (trial,) = (one for one in compiled.rewrites if one.name == WIDE_UNPACKING)
    assert dict(compiled.choice.rewrites)[WIDE_UNPACKING] == trial.setting > 128
    plain = replace(
        compiled.choice, rewrites=tuple(one for one in compiled.choice.rewrites if one[0] != WIDE_UNPACKING)
    )
    without = compile_choice(SPEC, machine, software, compiled.options, plain)
    assert max_codes(without) <= 128 < max_codes(compiled.program) <= trial.setting
    cycles = [Fabric(one, machine, software).decode_cost(AFTER).cycles for one in (without, compiled.program)]
    assert cycles[0] - cycles[1] == pytest.approx(trial.saved_cycles, rel=0.05)


def test_no_more_codes_are_unpacked_than_there_is_room_for() -> None:
    machine, _ = machine_of(mesh=(12, 20))
    roomy = compilation()
    wide, top = max_codes(roomy.program), max(stage.sram_top_byte for stage in roomy.program.stages)
    tight = compilation(replace(machine, sram_bytes_per_pe=top - wide))
    assert max_codes(tight.program) < wide
    assert max(stage.sram_top_byte for stage in tight.program.stages) <= top - wide
    chunks = [one.choice.prefill_chunk for one in (roomy, tight)]
    assert chunks[1] <= chunks[0], "room goes to chunks of prompts first"


def test_nothing_is_widened_where_nothing_is_rewritten_or_nothing_is_unpacked() -> None:
    assert WIDE_UNPACKING not in dict(compilation(schedule=BASELINE).choice.rewrites)
    assert WIDE_UNPACKING not in dict(compilation(schedule="joined-tasks").choice.rewrites)
    with pytest.raises(BadInput, match="wide-unpacking is not valid: weights are bfloat16 and need no unpacking"):
        compilation(dtype="bfloat16", activations=None, schedule=WIDE_UNPACKING)
