"""Test attention on fewer columns: used only if the Program fits and costs less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from timed_search import AFTER, CONTEXT, OPTIONS, machine_of, timing_of
from tiny_model import latent_spec, tiny_spec

from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE, DECODE
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.fitting.attention_columns import column_counts
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.rewrite_search import verify_choice
from wse.compiler.search.search import Compilation, search
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import layers_on
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.regions.layout import Layout

MACHINE, SOFTWARE = machine_of(mesh=(12, 120))
PASS = 16
"""Tokens of a pass."""

WIDE = tiny_spec(hidden=480, heads=8, kv_heads=4, head_size=16, ffn=960, vocab=500)


def cycles(program: Program) -> float:
    return Fabric(program, MACHINE, SOFTWARE).decode_cost(AFTER).cycles


def compilation(spec: ModelSpec, machine: WaferSpec = MACHINE, **options: Any) -> Compilation:
    asked = replace(OPTIONS, **options)
    return search(spec, machine, SOFTWARE, asked, cycles, timing_of(machine, SOFTWARE))


@pytest.mark.parametrize("spec", [WIDE, latent_spec(heads=4)], ids=["heads", "latent"])
def test_fewer_columns_are_chosen_where_a_token_takes_fewer_cycles(spec: ModelSpec) -> None:
    compiled = compilation(spec)
    chosen = compiled.choice.attention_cols
    assert 0 < chosen < MACHINE.mesh_cols
    (stage,) = compiled.program.stages
    assert stage.attention == ((MACHINE.mesh_cols - chosen) // 2, chosen)
    whole = replace(compiled.choice, attention_cols=0, trees=())
    assert cycles(compiled.program) < cycles(compile_choice(spec, MACHINE, SOFTWARE, compiled.options, whole))


def test_a_request_for_passes_has_the_columns_on_which_a_token_and_a_pass_take_the_fewest_cycles() -> None:
    """Verification of 16 tokens sends 16 times as many words, so narrow attention saves less."""
    compiled = compilation(WIDE, verify_tokens=PASS)
    assert compiled.choice.attention_cols == 0
    sums = []
    for columns in (0, compilation(WIDE).choice.attention_cols):
        choice = replace(compiled.choice, attention_cols=columns, trees=())
        fabric = Fabric(compile_choice(WIDE, MACHINE, SOFTWARE, compiled.options, choice), MACHINE, SOFTWARE)
        sums.append(fabric.decode_cost(AFTER).cycles + fabric.verify_cost(AFTER).cycles)
    assert sums[0] < sums[1]


def test_a_pass_on_a_layout_that_was_chosen_for_a_token_has_columns_of_its_own() -> None:
    compiled = compilation(WIDE)
    options = replace(compiled.options, verify_tokens=PASS, phases=(DECODE,), prompt_tokens=(1,), context=CONTEXT)
    choice, timing = replace(compiled.choice, prefill_chunk=1), timing_of(MACHINE, SOFTWARE)
    of_pass = verify_choice(WIDE, MACHINE, SOFTWARE, options, choice, timing)
    assert choice.attention_cols > of_pass.attention_cols == 0
    few = replace(of_pass, attention_cols=choice.attention_cols, trees=())
    cycles = [
        Fabric(compile_choice(WIDE, MACHINE, SOFTWARE, options, each), MACHINE, SOFTWARE).verify_cost(AFTER).cycles
        for each in (replace(of_pass, trees=()), few)
    ]
    assert cycles[0] < cycles[1]


def test_a_pass_is_tried_on_layers_that_are_cut_as_those_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compilation(WIDE)
    tried: list[Layout] = []

    def note(setup: TrialSetup, layout: Layout, *phase: Any) -> ReducedModel:
        tried.append(layout)
        return layers_on(setup, layout, *phase)

    monkeypatch.setattr("wse.compiler.search.rewrite_search.layers_on", note)
    options = replace(compiled.options, verify_tokens=2, phases=(DECODE,), prompt_tokens=(1,), context=CONTEXT)
    options = replace(options, mapping="pipeline", wafers=2)
    cut = replace(compiled.choice, prefill_chunk=1, block_parts=2)
    verify_choice(WIDE, MACHINE, SOFTWARE, options, cut, timing_of(MACHINE, SOFTWARE))
    assert {layout.block_parts for layout in tried} == {2}


@pytest.mark.parametrize("options", [{"schedule": BASELINE}, {"schedule": "norm-scales,joined-tasks"}])
def test_attention_stays_on_all_columns_where_nothing_is_to_be_chosen(options: dict[str, Any]) -> None:
    assert compilation(WIDE, **options).choice.attention_cols == 0


def test_numbers_of_columns_are_the_fewest_that_hold_as_much() -> None:
    """Four KV heads have 8 rotary pairs each: 32 columns store one pair each, 16 columns two."""
    assert column_counts(WIDE, 120)[0] == column_counts(WIDE, 33)[0] == 32
    assert column_counts(WIDE, 60) == (32, 16)
    latent = latent_spec()  # 11 features of queries' source, 10 latent ones, 3 rotary pairs
    assert column_counts(latent, 40, with_hidden=False) == (11,)
    assert column_counts(latent, 20, with_hidden=False) == (11, 10, 6)
