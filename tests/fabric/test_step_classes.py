"""Classes of steps: those of one class cost and move the same, each looked at on its own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.backends.fabric import group_cost, traffic_counts
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.step_classes import step_classes
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.program.program import Program

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float16", accumulate="float32", context=30, prompt_tokens=(9,))
CHOICE = Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=5)
MACHINE = wafer(6, 6, 1 << 20)


REGIONS = Choice(bands=1, per_band=2, prefill="thin-gemm", prefill_chunk=9, head_chunk=5)


def compiled(layers: int = 6, choice: Choice = CHOICE) -> Program:
    return compile_choice(tiny_spec(layers=layers, tied=False), MACHINE, SOFTWARE, OPTIONS, choice)


def test_more_layers_are_no_new_steps() -> None:
    few, many = compiled(4), compiled(12)
    for a, b in zip(few.phases, many.phases, strict=True):
        assert len(b.steps) > 2 * len(a.steps)
        assert len(set(step_classes(b.steps).tolist())) == len(set(step_classes(a.steps).tolist())) < len(a.steps)


@pytest.mark.parametrize("choice", [CHOICE, REGIONS])
def test_costs_are_those_of_every_step_by_itself(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(choice=choice)
    together = [Fabric(program, MACHINE, SOFTWARE).prefill_cost(0), Fabric(program, MACHINE, SOFTWARE).decode_cost(12)]
    monkeypatch.setattr(traffic_counts, "step_classes", lambda steps, shapes=None: np.arange(len(steps)))
    monkeypatch.setattr(group_cost, "costs_by_content", lambda *_: Forgetful())
    apart = [Fabric(program, MACHINE, SOFTWARE).prefill_cost(0), Fabric(program, MACHINE, SOFTWARE).decode_cost(12)]
    for a, b in zip(together, apart, strict=True):
        for name in ("start", "by_cause", "links"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
        for name in ("words", "hops", "bytes"):
            assert np.array_equal(getattr(a.traffic, name), getattr(b.traffic, name)), name


class Forgetful(dict[Hashable, Any]):
    """A dictionary that gives nothing back."""

    def get(self, key: Hashable, default: Any = None) -> Any:
        return default


def test_costs_that_other_programs_have_shown_are_those_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Programs that differ in regions, types, rewrites, users, tokens, mesh, wafer or software."""
    faster, wide = replace(SOFTWARE, task_dispatch_cycles=SOFTWARE.task_dispatch_cycles + 1), wafer(6, 8, 1 << 20)
    rewrites = (("shared-exp", 4), ("vectors-over-heads", 1), ("joined-tasks", 1))
    single = replace(OPTIONS, dtype="float32", accumulate="float32")
    users = replace(OPTIONS, prompt_tokens=(9, 9), verify_tokens=3)
    cases = [
        (MACHINE, SOFTWARE, OPTIONS, CHOICE),
        (MACHINE, SOFTWARE, OPTIONS, REGIONS),
        (MACHINE, SOFTWARE, single, REGIONS),
        (MACHINE, SOFTWARE, users, REGIONS),
        (MACHINE, SOFTWARE, OPTIONS, replace(REGIONS, rewrites=rewrites)),
        (MACHINE, faster, OPTIONS, REGIONS),
        (replace(MACHINE, hop_cycles=MACHINE.hop_cycles + 1), SOFTWARE, OPTIONS, REGIONS),
        (wide, SOFTWARE, OPTIONS, REGIONS),
        (MACHINE, SOFTWARE, replace(OPTIONS, mapping="tensor"), replace(REGIONS, per_band=1)),
    ]

    def costs() -> list[Any]:
        found = []
        for machine, software, options, choice in cases:
            program = compile_choice(tiny_spec(layers=6, tied=False), machine, software, options, choice)
            fabric = Fabric(program, machine, software)
            lengths = (12,) * options.batch
            found += [fabric.prefill_cost(0), fabric.decode_cost(*lengths)]
            found += [fabric.verify_cost(12)] if program.verify else []
        return found

    shown = costs() + costs()
    monkeypatch.setattr(group_cost, "costs_by_content", lambda *_: Forgetful())
    own = costs()
    assert len({cost.cycles for cost in own}) > len(cases)
    for a, b in zip(shown, own + own, strict=True):
        assert np.array_equal(a.by_cause, b.by_cause)
        assert np.array_equal(a.contention, b.contention)
