"""Totals of runs, activity of the PEs, and steps of equal cost."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session import SOFTWARE, region_options, wafer
from tiny_model import tiny_spec

from wse.backends.fabric import group_cost, traffic_counts
from wse.backends.fabric.activity import phase_counts
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.backends.fabric.step_classes import step_classes
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import is_linear
from wse.program.program import Program
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer_types import is_of_type

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=67)


@pytest.mark.parametrize("at_once", [False, True])
def test_totals_are_the_sums_over_all_runs(*, at_once: bool) -> None:
    machine = wafer(6, 5, 1 << 20)
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, OPTIONS, CHOICE)
    clock, fabric = RunTotals(Fabric(program, machine, SOFTWARE)), Fabric(program, machine, SOFTWARE)
    assert not clock.links_on(0).any()
    prompt = [fabric.prefill_cost(i) for i in range(3)]
    tokens = [fabric.decode_cost(length) for length in range(9, 40)]
    for index in range(3):
        clock.prefill_chunk(index)
    if at_once:
        clock.decode_all(len(tokens))
    for _ in tokens if not at_once else ():
        clock.decode_token()
    assert clock.lengths == [40]
    assert clock.decode.busiest_links()[0].words == fabric.routes.words(clock.decode.rectangles()).max()
    assert clock.cycles == sum(cost.cycles for cost in prompt + tokens)
    for totals, costs in ((clock.prefill, prompt), (clock.decode, tokens)):
        assert totals.runs == len(costs)
        links = fabric.routes.words(totals.rectangles())
        assert totals.hops == sum(int(cost.traffic.hops.sum()) for cost in costs) == links.sum()
        assert np.array_equal(links, sum(cost.links for cost in costs))
        assert np.allclose(totals.by_cause, sum(cost.by_cause.sum(axis=0) for cost in costs))
    for wafer_number, words in enumerate(sum(cost.links for cost in prompt + tokens)):
        assert np.array_equal(clock.links_on(wafer_number), words)


def test_all_chunks_at_once_are_those_one_after_another() -> None:
    """Of two users, some of whose chunks are alike and some not."""
    machine, options = wafer(6, 5, 1 << 20), replace(OPTIONS, prompt_tokens=(11, 13))
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, options, replace(CHOICE, prefill_chunk=2))
    one, all_ = (RunTotals(Fabric(program, machine, SOFTWARE)) for _ in range(2))
    costs = [one.prefill_chunk(index) for index in range(len(program.prefill))]
    found = all_.prefill_all()
    assert [cost.cycles for cost in found] == [cost.cycles for cost in costs]
    assert len({id(cost) for cost in found}) < len(found) == 13
    assert all_.lengths == one.lengths == [11, 13]
    a, b = all_.prefill, one.prefill
    sums = ("runs", "cycles", "layer_cycles", "words", "hops", "crossed")
    assert [getattr(a, name) for name in sums] == [getattr(b, name) for name in sums]
    assert np.array_equal(a.by_cause, b.by_cause)
    assert np.array_equal(all_.links_on(0), one.links_on(0))
    assert a.busiest_links() == b.busiest_links()


ROWS, COLS = 5, 4
MACHINE = wafer(ROWS, COLS, 1 << 20)


def program_of(spec: ModelSpec, *, batch: int = 1, experts: str = "distributed") -> Program:
    options = region_options(dtype="float16", context=40, prompt_tokens=(6,) * batch, experts=experts)
    choice = Choice(prefill="thin-gemm", prefill_chunk=6, head_chunk=67)
    return compile_choice(spec, MACHINE, SOFTWARE, options, choice)


def product_elements(program: Program) -> int:
    """Elements of the tiles of products on one PE."""
    tensors = [[part.tensor for part in tile.parts] for tile in program.tiles]
    products = [any(is_linear(name) or name == "head" for name in names) for names in tensors]
    return sum(tile.elements for tile, product in zip(program.tiles, products, strict=True) if product)


@pytest.mark.parametrize("batch", [1, 3])
def test_every_weight_is_read_and_multiplied_once_for_each_user(batch: int) -> None:
    """A few users' products are one GEMV each."""
    program = program_of(tiny_spec(tied=False), batch=batch)
    none, some = phase_counts(
        program, MACHINE, SOFTWARE, program.decode, [(0,), (3,)], step_classes(program.decode.steps)
    )
    assert none.macs == batch * product_elements(program) * ROWS * COLS
    assert none.read_bytes == 2 * batch * product_elements(program) * ROWS * COLS
    cache = sum(buffer.bytes for buffer in program.buffers if buffer.use == "kv") // 8  # of 8 slots, all users
    assert some.read_bytes - none.read_bytes == 3 * cache * ROWS * COLS
    assert some.macs - none.macs == 3 * (cache // 2) * 3 * ROWS * COLS  # three query heads share keys and values


def test_vector_operations_of_a_token_are_whole_and_more_for_more_users() -> None:
    counts = []
    for batch in (1, 2):
        program = program_of(tiny_spec(), batch=batch)
        counts.append(
            phase_counts(program, MACHINE, SOFTWARE, program.decode, [(2,)], step_classes(program.decode.steps))[
                0
            ].vector_operations
        )
    assert all(count == int(count) and count % COLS == 0 for count in counts)
    assert counts[1] > counts[0] > len(program.decode.steps) * ROWS * COLS


STEP_CLASSES_OPTIONS = Options(
    mapping="pipeline", wafers=2, dtype="float16", accumulate="float32", context=30, prompt_tokens=(9,)
)
STEP_CLASSES_CHOICE = Choice(prefill="mesh-gemm", prefill_chunk=9, head_chunk=5)
STEP_CLASSES_MACHINE = wafer(6, 6, 1 << 20)
REGIONS = Choice(bands=1, per_band=2, prefill="thin-gemm", prefill_chunk=9, head_chunk=5)
EQUAL_DISTANCES = replace(REGIONS, per_band=3)


def compiled(layers: int = 6, choice: Choice = STEP_CLASSES_CHOICE) -> Program:
    return compile_choice(
        tiny_spec(layers=layers, tied=False), STEP_CLASSES_MACHINE, SOFTWARE, STEP_CLASSES_OPTIONS, choice
    )


def test_more_layers_are_no_new_steps() -> None:
    few, many = compiled(4), compiled(12)
    for a, b in zip(few.phases, many.phases, strict=True):
        assert len(b.steps) > 2 * len(a.steps)
        assert len(set(step_classes(b.steps).tolist())) == len(set(step_classes(a.steps).tolist())) < len(a.steps)


def test_transfers_over_equal_distances_are_equivalent() -> None:
    program = compiled(choice=EQUAL_DISTANCES)  # three regions side by side on each of two wafers
    steps = np.flatnonzero(is_of_type(program.decode.steps, StageTransfer, Crossing))
    classes = Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).shape_classes(program.decode)[steps].tolist()
    assert program.decode.steps.stage[steps].tolist() == [0, 1, 2, 3, 4, 5]
    assert classes[0] == classes[1] == classes[3] == classes[4]
    assert len(set(classes)) == 3, "to the next region, to the next wafer, and back to the first region"


@pytest.mark.parametrize("choice", [STEP_CLASSES_CHOICE, REGIONS, EQUAL_DISTANCES])
def test_costs_are_those_of_every_step_by_itself(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(choice=choice)
    together = [
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).prefill_cost(0),
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).decode_cost(12),
    ]
    monkeypatch.setattr(traffic_counts, "step_classes", lambda steps, *_, **__: np.arange(len(steps)))
    monkeypatch.setattr(group_cost, "costs_by_content", lambda *_: Forgetful())
    apart = [
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).prefill_cost(0),
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).decode_cost(12),
    ]
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
    single = replace(STEP_CLASSES_OPTIONS, dtype="float32", accumulate="float32")
    users = replace(STEP_CLASSES_OPTIONS, prompt_tokens=(9, 9), verify_tokens=3)
    cases = [
        (STEP_CLASSES_MACHINE, SOFTWARE, STEP_CLASSES_OPTIONS, STEP_CLASSES_CHOICE),
        (STEP_CLASSES_MACHINE, SOFTWARE, STEP_CLASSES_OPTIONS, REGIONS),
        (STEP_CLASSES_MACHINE, SOFTWARE, single, REGIONS),
        (STEP_CLASSES_MACHINE, SOFTWARE, users, REGIONS),
        (STEP_CLASSES_MACHINE, SOFTWARE, STEP_CLASSES_OPTIONS, replace(REGIONS, rewrites=rewrites)),
        (STEP_CLASSES_MACHINE, faster, STEP_CLASSES_OPTIONS, REGIONS),
        (
            replace(STEP_CLASSES_MACHINE, hop_cycles=STEP_CLASSES_MACHINE.hop_cycles + 1),
            SOFTWARE,
            STEP_CLASSES_OPTIONS,
            REGIONS,
        ),
        (wide, SOFTWARE, STEP_CLASSES_OPTIONS, REGIONS),
        (STEP_CLASSES_MACHINE, SOFTWARE, replace(STEP_CLASSES_OPTIONS, mapping="tensor"), replace(REGIONS, per_band=1)),
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
