"""Columns of attention that a search chooses: fewer than all only where a Program costs less so, and where they fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from timed_search import AFTER, OPTIONS, machine_of, timing_of
from tiny_model import latent_spec, tiny_spec

from wse.compiler.options import RELEASED
from wse.compiler.pipeline import compile_choice
from wse.fabric.model import Fabric
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.search.attention_widths import column_counts
from wse.search.search import Compilation, search

MACHINE, SOFTWARE = machine_of(mesh=(12, 120))
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


@pytest.mark.parametrize("options", [{"schedule": RELEASED}, {"schedule": "norm-scales,joined-tasks"}])
def test_attention_stays_on_all_columns_where_nothing_is_to_be_chosen(options: dict[str, Any]) -> None:
    assert compilation(WIDE, **options).choice.attention_cols == 0


def test_numbers_of_columns_are_the_fewest_that_hold_as_much() -> None:
    """4 key heads of 8 rotary pairs: 32 columns hold a pair each, 16 two."""
    assert column_counts(WIDE, 120)[0] == column_counts(WIDE, 33)[0] == 32
    assert column_counts(WIDE, 60) == (32, 16)
    latent = latent_spec()  # 11 features of queries' source, 10 latent ones, 3 rotary pairs
    assert column_counts(latent, 40, with_hidden=False) == (11,)
    assert column_counts(latent, 20, with_hidden=False) == (11, 10, 6)
