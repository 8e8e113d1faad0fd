"""Tests of `RunTotals`, the activity counts of the PEs, and the reuse of costs between equal steps."""

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
    run_totals, fabric = RunTotals(Fabric(program, machine, SOFTWARE)), Fabric(program, machine, SOFTWARE)
    assert not run_totals.links_on(0).any()
    prompt = [fabric.prefill_cost(i) for i in range(3)]
    tokens = [fabric.decode_cost(length) for length in range(9, 40)]
    for index in range(3):
        run_totals.prefill_chunk(index)
    if at_once:
        run_totals.decode_all(len(tokens))
    for _ in tokens if not at_once else ():
        run_totals.decode_token()
    assert run_totals.lengths == [40]
    assert run_totals.decode.busiest_links()[0].words == fabric.routes.words(run_totals.decode.rectangles()).max()
    assert run_totals.cycles == sum(cost.cycles for cost in prompt + tokens)
    for totals, costs in ((run_totals.prefill, prompt), (run_totals.decode, tokens)):
        assert totals.runs == len(costs)
        links = fabric.routes.words(totals.rectangles())
        assert totals.hops == sum(int(cost.traffic.hops.sum()) for cost in costs) == links.sum()
        assert np.array_equal(links, sum(cost.links for cost in costs))
        assert np.allclose(totals.by_cause, sum(cost.by_cause.sum(axis=0) for cost in costs))
    for wafer_number, words in enumerate(sum(cost.links for cost in prompt + tokens)):
        assert np.array_equal(run_totals.links_on(wafer_number), words)


def test_prefill_all_equals_single_prefill_chunks() -> None:
    """Of the 13 chunks of two users, some cost the same and some do not."""
    machine, options = wafer(6, 5, 1 << 20), replace(OPTIONS, prompt_tokens=(11, 13))
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, options, replace(CHOICE, prefill_chunk=2))
    single, batched = (RunTotals(Fabric(program, machine, SOFTWARE)) for _ in range(2))
    costs = [single.prefill_chunk(index) for index in range(len(program.prefill))]
    found = batched.prefill_all()
    assert [cost.cycles for cost in found] == [cost.cycles for cost in costs]
    assert len({id(cost) for cost in found}) < len(found) == 13
    assert batched.lengths == single.lengths == [11, 13]
    a, b = batched.prefill, single.prefill
    sums = ("runs", "cycles", "layer_cycles", "words", "hops", "crossed")
    assert [getattr(a, name) for name in sums] == [getattr(b, name) for name in sums]
    assert np.array_equal(a.by_cause, b.by_cause)
    assert np.array_equal(batched.links_on(0), single.links_on(0))
    assert a.busiest_links() == b.busiest_links()


ROWS, COLS = 5, 4
MACHINE = wafer(ROWS, COLS, 1 << 20)


def program_of(spec: ModelSpec, *, batch: int = 1, experts: str = "distributed") -> Program:
    options = region_options(dtype="float16", context=40, prompt_tokens=(6,) * batch, experts=experts)
    choice = Choice(prefill="thin-gemm", prefill_chunk=6, head_chunk=67)
    return compile_choice(spec, MACHINE, SOFTWARE, options, choice)


def product_elements(program: Program) -> int:
    """Return the number of elements in the tiles of linear layers and of the head, on one PE."""
    tensors = [[part.tensor for part in tile.parts] for tile in program.tiles]
    products = [any(is_linear(name) or name == "head" for name in names) for names in tensors]
    return sum(tile.elements for tile, product in zip(program.tiles, products, strict=True) if product)


@pytest.mark.parametrize("batch", [1, 3])
def test_weights_are_read_and_multiplied_once_per_user(batch: int) -> None:
    """With a few users, each linear layer is one GEMV per user."""
    program = program_of(tiny_spec(tied=False), batch=batch)
    no_slots, three_slots = phase_counts(
        program, MACHINE, SOFTWARE, program.decode, [(0,), (3,)], step_classes(program.decode.steps)
    )
    assert no_slots.macs == batch * product_elements(program) * ROWS * COLS
    assert no_slots.read_bytes == 2 * batch * product_elements(program) * ROWS * COLS
    cache = sum(buffer.bytes for buffer in program.buffers if buffer.use == "kv") // 8  # one of 8 slots, all users
    assert three_slots.read_bytes - no_slots.read_bytes == 3 * cache * ROWS * COLS
    assert three_slots.macs - no_slots.macs == 3 * (cache // 2) * 3 * ROWS * COLS  # three query heads per KV head


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


def test_step_classes_do_not_depend_on_the_number_of_layers() -> None:
    few, many = compiled(4), compiled(12)
    for a, b in zip(few.phases, many.phases, strict=True):
        assert len(b.steps) > 2 * len(a.steps)
        assert len(set(step_classes(b.steps).tolist())) == len(set(step_classes(a.steps).tolist())) < len(a.steps)


def test_transfers_over_equal_distances_have_one_class() -> None:
    program = compiled(choice=EQUAL_DISTANCES)  # three regions side by side on each of two wafers
    steps = np.flatnonzero(is_of_type(program.decode.steps, StageTransfer, Crossing))
    classes = Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).shape_classes(program.decode)[steps].tolist()
    assert program.decode.steps.stage[steps].tolist() == [0, 1, 2, 3, 4, 5]
    assert classes[0] == classes[1] == classes[3] == classes[4]
    assert len(set(classes)) == 3, "to the next region, to the next wafer, and back to the first region"


@pytest.mark.parametrize("choice", [STEP_CLASSES_CHOICE, EQUAL_DISTANCES])
def test_costs_equal_those_without_step_classes_and_caches(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(choice=choice)
    grouped = [
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).prefill_cost(0),
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).decode_cost(12),
    ]
    monkeypatch.setattr(traffic_counts, "step_classes", lambda steps, *_, **__: np.arange(len(steps)))
    monkeypatch.setattr(group_cost, "costs_by_content", lambda *_: EmptyCache())
    separate = [
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).prefill_cost(0),
        Fabric(program, STEP_CLASSES_MACHINE, SOFTWARE).decode_cost(12),
    ]
    for a, b in zip(grouped, separate, strict=True):
        for name in ("start", "by_cause", "links"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
        for name in ("words", "hops", "bytes"):
            assert np.array_equal(getattr(a.traffic, name), getattr(b.traffic, name)), name


class EmptyCache(dict[Hashable, Any]):
    """A dictionary whose `get` never finds an entry, which disables a cache."""

    def get(self, key: Hashable, default: Any = None) -> Any:
        return default


def test_costs_cached_from_other_programs_equal_uncached_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Programs differ in regions, data types, rewrites, users, tokens per pass, mesh, wafer or software."""
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

    programs = [compile_choice(tiny_spec(layers=6, tied=False), *case) for case in cases]

    def costs() -> list[Any]:
        found = []
        for program, (machine, software, options, _) in zip(programs, cases, strict=True):
            fabric = Fabric(program, machine, software)
            found += [fabric.prefill_cost(0), fabric.decode_cost(*(12,) * options.batch)]
            found += [fabric.verify_cost(12)] if program.verify else []
        return found

    cached = costs()
    monkeypatch.setattr(group_cost, "costs_by_content", lambda *_: EmptyCache())
    uncached = costs()
    assert len({cost.cycles for cost in uncached}) > len(cases)
    for a, b in zip(cached, uncached, strict=True):
        assert np.array_equal(a.by_cause, b.by_cause)
        assert np.array_equal(a.contention, b.contention)
