"""Tests of the lower bounds on step cycles: against independent counts and against the modelled cycles."""

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options, wafer
from tiny_model import latent_spec, tiny_spec

from wse.backends.fabric.bounds import BOUNDS, PhaseBounds, reach
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.step_classes import step_classes
from wse.compiler.choice import Choice
from wse.compiler.pipeline import compile_choice
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import is_linear
from wse.program.program import Program
from wse_mappings.schedule import Arrival, uniform_schedule

MACHINE = wafer(7, 6, 1 << 20)
SRAM, MACS, HOPS, CROSSING = range(len(BOUNDS))


def program_of(
    spec: ModelSpec,
    *,
    dtype: str = "float16",
    batch: int = 1,
    wafers: int = 1,
    mapping: str = "region",
    stages: int = 1,
) -> Program:
    options = region_options(
        mapping=mapping,
        wafers=wafers,
        dtype=dtype,
        activations="float16" if dtype != "float16" else None,
        context=60,
        prompt_tokens=(9,) * batch,
    )
    choice = Choice(per_band=stages, prefill="thin-gemm", prefill_chunk=9, head_chunk=67)
    return compile_choice(spec, MACHINE, SOFTWARE, options, choice)


@pytest.mark.parametrize("dtype", ["float16", "int4"])
def test_sram_bound_reads_every_weight_once_and_the_used_cache(dtype: str) -> None:
    program = program_of(tiny_spec(layers=3, tied=False), dtype=dtype)
    bounds = PhaseBounds(program, MACHINE, SOFTWARE)
    tensors = [[part.tensor.removesuffix(".codes").removesuffix(".scales") for part in t.parts] for t in program.tiles]
    product_tiles = [
        t for t, names in zip(program.tiles, tensors, strict=True) if any(is_linear(n) or n == "head" for n in names)
    ]
    weight_bytes = sum(tile.elements * (1 if tile.coding else 2) for tile in product_tiles)
    slot_bytes = sum(buffer.bytes for buffer in program.buffers if buffer.use == "kv") // -(-60 // 7)
    for slots in (2, 5):
        total = bounds.of(program.decode, (slots,), step_classes(program.decode.steps)).sum(axis=0)
        assert total[SRAM] * MACHINE.sram_bytes_per_cycle == pytest.approx(weight_bytes + slots * slot_bytes)


CASES = [
    (tiny_spec(layers=4), {"batch": 3}),
    (tiny_spec(layers=4), {"wafers": 2, "mapping": "pipeline", "stages": 2}),
    (tiny_spec(layers=2), {"dtype": "int8"}),
    (tiny_spec(layers=2), {"wafers": 3, "mapping": "tensor", "batch": 2}),
    (mixture_spec(MIXTURES["shared"], layers=3), {"wafers": 3, "mapping": "expert"}),
    (latent_spec(), {}),
    (mixture_spec(MIXTURES["shared"], layers=3), {"dtype": "int4"}),
]


@pytest.mark.parametrize(("spec", "options"), CASES, ids=range(len(CASES)))
def test_bounds_do_not_exceed_the_cycles_of_a_step_or_loop(spec: ModelSpec, options: dict[str, object]) -> None:
    program = program_of(spec, **options)  # type: ignore[arg-type]
    fabric, phase_bounds = Fabric(program, MACHINE, SOFTWARE), PhaseBounds(program, MACHINE, SOFTWARE)
    costs = [(phase, fabric.prefill_cost(i), (2,) * len(program.stages)) for i, phase in enumerate(program.prefill)]
    length = 20
    costs.append((program.decode, fabric.decode_cost(*(length,) * program.batch), fabric.cache_use((length,))[0]))
    for phase, cost, slots in costs:
        bounds = phase_bounds.of(phase, slots, step_classes(phase.steps))
        cycles = cost.by_cause.sum(axis=1)
        loops = [range(int(first), int(end)) for first, end, _ in phase.steps.loops]
        inside = {step for loop in loops for step in loop}
        for steps in [*loops, *([step] for step in range(len(phase.steps)) if step not in inside)]:
            assert bounds[list(steps)].sum(axis=0).max() <= cycles[list(steps)].sum() + 1e-6, list(steps)


def test_crossing_bound_is_link_latency_plus_transfer_time() -> None:
    program = program_of(tiny_spec(layers=4), wafers=2)
    cost = Fabric(program, MACHINE, SOFTWARE).decode_cost(9)
    bounds = PhaseBounds(program, MACHINE, SOFTWARE).of(
        program.decode, (2,) * len(program.stages), step_classes(program.decode.steps)
    )[:, CROSSING]
    crossings, payload = np.flatnonzero(bounds), cost.traffic.bytes[bounds > 0].tolist()
    assert payload == [40 * 2, 40 * 2]  # the hidden vector to the second wafer, and back to the head
    seconds = [MACHINE.wafer_link_latency_s + bytes_ / MACHINE.wafer_link_bytes_per_s for bytes_ in payload]
    assert bounds[crossings] == pytest.approx(np.array(seconds) * MACHINE.clock_hz)


def test_reach_is_the_longest_distance_from_an_origin() -> None:
    add, copy, to_all = Arrival.ADD, Arrival.REPLACE, Arrival.MULTICAST
    chain = [(i, i + 1, add) for i in range(6)]
    back = [(6, 0, to_all)]
    all_reduce = uniform_schedule("all_reduce", 7, 1, chain + back, 1)
    assert reach(all_reduce, 0, in_place=True) == 6
    inward = [(0, 1, add), (1, 2, add), (6, 5, add), (5, 4, add), (4, 3, add), (2, 3, add)]
    assert reach(uniform_schedule("reduce", 7, 1, inward, 1), 0, in_place=True) == 3
    shift = uniform_schedule("shift", 7, 1, [(i, i + 1, copy) for i in range(6)], 1)
    assert reach(shift, 0, in_place=False) == 1
    assert reach(shift, 0, in_place=True) == 6
    local = uniform_schedule("local", 7, 1, [(0, 0, Arrival.COPY)], 1)
    assert reach(local, 0, in_place=True) == 0
    dropped = uniform_schedule("dropped", 7, 1, [(2, 5, Arrival.DROP), (5, 6, add)], 1)
    assert reach(dropped, 0, in_place=True) == 3
