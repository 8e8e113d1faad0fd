"""Test copies of symbolic steps with some fields changed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from wse.compiler.symbolic import SymAddress, SymBuffer, SymStep, fixed_number
from wse.program.steps import StepKind

X, Y = (
    SymBuffer(stage=0, name=name, use="activations", view="act", elements=8, permanent=False) for name in ("x", "y")
)
STEP = SymStep(
    kind=StepKind.COMPUTE,
    code=0,
    pattern=-1,
    axis=0,
    view="act",
    op=0,
    loop=-1,
    overlap=-1,
    depends_on_experts=False,
    operands={0: fixed_number(0), 1: fixed_number(4), 2: SymAddress(buffer=X)},
)


@pytest.mark.parametrize(
    "changes", [{"runs_in_previous_task": True}, {"operands": {2: SymAddress(buffer=Y)}, "loop": 3}]
)
def test_a_copy_has_the_fields_that_are_replaced_and_buffers_of_its_own(changes: dict[str, Any]) -> None:
    assert STEP.buffers == {X}
    copy, expected = STEP.copy_with(**changes), replace(STEP, **changes)
    assert [getattr(copy, field.name) for field in fields(copy)] == [
        getattr(expected, field.name) for field in fields(expected)
    ]
    assert copy.buffers == expected.buffers
    assert STEP.buffers == {X}


def test_an_address_is_moved_to_another_buffer_with_its_steps_from_round_to_round() -> None:
    at = SymAddress(buffer=X, offset=2, per_round=3, per_slot_round=4, odd_round_buffer=Y)
    assert at.moved_to(Y, 5) == replace(at, buffer=Y, offset=7)
