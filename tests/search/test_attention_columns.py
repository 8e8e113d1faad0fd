"""Tests of the choices of the search for attention columns and for the unpacking of codes."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from timed_search import AFTER, CONTEXT, OPTIONS, machine_of, timing_of
from tiny_model import latent_spec, tiny_spec

from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE, DECODE, WIDE_UNPACKING
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.fitting.attention_columns import column_counts
from wse.compiler.search.layer_cycles import layers_on
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.rewrite_search import verify_choice
from wse.compiler.search.search import Compilation, search
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program
from wse_mappings.regions.layout import Layout

MACHINE, SOFTWARE = machine_of(mesh=(12, 120))
VERIFY_TOKENS = 16
"""Tokens of a verification pass."""
WIDE = tiny_spec(hidden=480, heads=8, kv_heads=4, head_size=16, ffn=960, vocab=500)


def cycles(program: Program) -> float:
    """Return the cycles of a decoded token."""
    return Fabric(program, MACHINE, SOFTWARE).decode_cost(AFTER).cycles


@cache
def compilation(**options: Any) -> Compilation:
    """Search for the fastest layout of the wide model with changed options."""
    changed_options = replace(OPTIONS, **options)
    return search(WIDE, MACHINE, SOFTWARE, changed_options, cycles, timing_of(MACHINE, SOFTWARE))


def test_fewer_columns_are_chosen_if_a_token_needs_fewer_cycles() -> None:
    compiled = compilation()
    chosen = compiled.choice.attention_cols
    assert 0 < chosen < MACHINE.mesh_cols
    (stage,) = compiled.program.stages
    assert stage.attention == ((MACHINE.mesh_cols - chosen) // 2, chosen)
    all_columns = replace(compiled.choice, attention_cols=0, trees=())
    assert cycles(compiled.program) < cycles(compile_choice(WIDE, MACHINE, SOFTWARE, compiled.options, all_columns))


def test_columns_minimise_cycles_of_a_token_and_a_verification_pass() -> None:
    """Verification of 16 tokens sends 16 times as many words, so narrow attention saves less."""
    compiled = compilation(verify_tokens=VERIFY_TOKENS)
    assert compiled.choice.attention_cols == 0
    sums = []
    for columns in (0, compilation().choice.attention_cols):
        choice = replace(compiled.choice, attention_cols=columns, trees=())
        fabric = Fabric(compile_choice(WIDE, MACHINE, SOFTWARE, compiled.options, choice), MACHINE, SOFTWARE)
        sums.append(fabric.decode_cost(AFTER).cycles + fabric.verify_cost(AFTER).cycles)
    assert sums[0] < sums[1]


def test_verification_pass_gets_separate_columns_on_a_layout_for_tokens() -> None:
    compiled = compilation()
    options = replace(
        compiled.options, verify_tokens=VERIFY_TOKENS, phases=(DECODE,), prompt_tokens=(1,), context=CONTEXT
    )
    choice, timing = replace(compiled.choice, prefill_chunk=1), timing_of(MACHINE, SOFTWARE)
    pass_choice = verify_choice(WIDE, MACHINE, SOFTWARE, options, choice, timing)
    assert choice.attention_cols > pass_choice.attention_cols == 0
    token_columns = replace(pass_choice, attention_cols=choice.attention_cols, trees=())
    cycles = [
        Fabric(compile_choice(WIDE, MACHINE, SOFTWARE, options, each), MACHINE, SOFTWARE).verify_cost(AFTER).cycles
        for each in (replace(pass_choice, trees=()), token_columns)
    ]
    assert cycles[0] < cycles[1]


def test_verification_pass_is_tried_on_the_cut_layers_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compilation()
    tried: list[Layout] = []

    def record_layout(setup: TrialSetup, layout: Layout, *phase: Any) -> ReducedModel:
        tried.append(layout)
        return layers_on(setup, layout, *phase)

    monkeypatch.setattr("wse.compiler.search.rewrite_search.layers_on", record_layout)
    options = replace(compiled.options, verify_tokens=2, phases=(DECODE,), prompt_tokens=(1,), context=CONTEXT)
    options = replace(options, mapping="pipeline", wafers=2)
    cut = replace(compiled.choice, prefill_chunk=1, block_parts=2)
    verify_choice(WIDE, MACHINE, SOFTWARE, options, cut, timing_of(MACHINE, SOFTWARE))
    assert {layout.block_parts for layout in tried} == {2}


@pytest.mark.parametrize("options", [{"schedule": BASELINE}, {"schedule": "norm-scales,joined-tasks"}])
def test_attention_uses_all_columns_with_other_schedules(options: dict[str, Any]) -> None:
    assert compilation(**options).choice.attention_cols == 0


def test_column_counts_are_the_fewest_for_their_features_per_column() -> None:
    """Four KV heads have 8 rotary pairs each: 32 columns store one pair each, 16 columns two."""
    assert column_counts(WIDE, 120)[0] == column_counts(WIDE, 33)[0] == 32
    assert column_counts(WIDE, 60) == (32, 16)
    latent = latent_spec()  # 11 source features of queries, 10 latent features, 3 rotary pairs
    assert column_counts(latent, 40, with_hidden=False) == (11,)
    assert column_counts(latent, 20, with_hidden=False) == (11, 10, 6)


SPEC = replace(tiny_spec(hidden=1024, heads=8, kv_heads=4, head_size=32, ffn=960, vocab=500), dtype="bfloat16")
CODED = replace(OPTIONS, dtype="int4", activations="bfloat16", capacity="refuse")


@cache
def compilation_unpacking(machine: WaferSpec | None = None, **options: Any) -> Compilation:
    """Search for the fastest layout of the model with int4 codes."""
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


def test_wide_unpacking_saves_the_reported_cycles() -> None:
    compiled, (machine, software) = compilation_unpacking(), machine_of(mesh=(12, 20))
    (trial,) = (one for one in compiled.rewrites if one.name == WIDE_UNPACKING)
    assert dict(compiled.choice.rewrites)[WIDE_UNPACKING] == trial.setting > 128
    plain = replace(
        compiled.choice, rewrites=tuple(one for one in compiled.choice.rewrites if one[0] != WIDE_UNPACKING)
    )
    without = compile_choice(SPEC, machine, software, compiled.options, plain)
    assert max_codes(without) <= 128 < max_codes(compiled.program) <= trial.setting
    cycles = [Fabric(one, machine, software).decode_cost(AFTER).cycles for one in (without, compiled.program)]
    assert cycles[0] - cycles[1] == pytest.approx(trial.saved_cycles, rel=0.05)


def test_unpacked_codes_fit_in_sram() -> None:
    machine, _ = machine_of(mesh=(12, 20))
    default = compilation_unpacking()
    default_codes, top = max_codes(default.program), max(stage.sram_top_byte for stage in default.program.stages)
    with_less_sram = compilation_unpacking(replace(machine, sram_bytes_per_pe=top - default_codes))
    assert max_codes(with_less_sram.program) < default_codes
    assert max(stage.sram_top_byte for stage in with_less_sram.program.stages) <= top - default_codes
    chunks = [one.choice.prefill_chunk for one in (default, with_less_sram)]
    assert chunks[1] <= chunks[0], "prompt chunks get free SRAM first"


def test_wide_unpacking_needs_rewrites_and_codes() -> None:
    assert WIDE_UNPACKING not in dict(compilation_unpacking(schedule=BASELINE).choice.rewrites)
    assert WIDE_UNPACKING not in dict(compilation_unpacking(schedule="joined-tasks").choice.rewrites)
    with pytest.raises(BadInput, match="wide-unpacking is not valid: weights are bfloat16 and need no unpacking"):
        compilation_unpacking(dtype="bfloat16", activations=None, schedule=WIDE_UNPACKING)
