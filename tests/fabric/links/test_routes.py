"""Tests of the fabric model on wafers with dead PEs and links: words on physical links, hops and cycles."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from intact_fabric import intact_fabric
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.backends.fabric.line.rounds import rounds_of
from wse.backends.fabric.links.layer_links import layer_links
from wse.backends.fabric.links.routes import LongestLine
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.hardware.load import load_wafer
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.mesh.faults import FabricFaults
from wse_mappings.mesh.logical_mesh import LogicalMesh, transposed_words
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.rings import ring_all_reduce, ring_reduce, ring_shift
from wse_mappings.schedule import I32, Arrival, LineSchedule

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=67)
CASES: dict[str, tuple[tuple[int, int], Options, Choice]] = {
    "one region": ((6, 5), OPTIONS, CHOICE),
    "three regions": ((9, 8), replace(OPTIONS, mapping="pipeline"), replace(CHOICE, bands=3)),
    "a region on two wafers": ((6, 5), replace(OPTIONS, mapping="tensor", wafers=2), CHOICE),
    "transposed": ((7, 6), replace(OPTIONS, mapping="auto"), replace(CHOICE, bands=2, is_transposed=True)),
    "two wafers": ((6, 6), replace(OPTIONS, wafers=2), replace(CHOICE, prefill="mesh-gemm", prefill_chunk=6)),
}
TOKENS = 4


@cache
def compiled(name: str) -> Program:
    mesh, options, choice = CASES[name]
    return compile_choice(tiny_spec(layers=6), wafer(*mesh, 1 << 20), SOFTWARE, options, choice)


def fabric_of(program: Program, meshes: tuple[LogicalMesh, ...] = ()) -> Fabric:
    return Fabric(program, wafer(program.wafer_rows, program.wafer_cols, 1 << 20), SOFTWARE, meshes)


def costs_of(fabric: Fabric) -> list[PhaseCost]:
    costs = [fabric.prefill_cost(index) for index in range(len(fabric.program.prefill))]
    return costs + [fabric.decode_cost(9 + i) for i in range(TOKENS)]


def broken_meshes(program: Program) -> tuple[LogicalMesh, ...]:
    """Return one mesh per wafer, on a fabric with three more rows and columns and several dead PEs and links."""
    shape = (program.wafer_rows, program.wafer_cols)[:: -1 if program.is_transposed else 1]
    rows, cols = shape[0] + 3, shape[1] + 3
    found = []
    for seed in range(program.wafers):
        random = np.random.default_rng(seed)
        planes = random.random((3, rows, cols)) < np.array([0.06, 0.05, 0.05])[:, None, None]
        planes[0, 2, 1] = planes[1, 4, 2] = planes[2, 3, 0] = True
        planes[1, :, -1] = planes[2, -1] = False
        fabric = FabricFaults(dead=planes[0], east=planes[1], south=planes[2])
        found.append(LogicalMesh.on(fabric, *shape))
    return tuple(found)


@pytest.mark.parametrize("name", ["a region on two wafers", "transposed"])
def test_costs_do_not_change_on_a_fabric_without_defects(name: str) -> None:
    program = compiled(name)
    rows, cols = (program.wafer_rows, program.wafer_cols)[:: -1 if program.is_transposed else 1]
    meshes = (LogicalMesh.on(intact_fabric(rows, cols), rows, cols),) * program.wafers
    for plain, cost in zip(costs_of(fabric_of(program)), costs_of(fabric_of(program, meshes)), strict=True):
        for field in ("start", "by_cause", "contention", "streams", "links"):
            np.testing.assert_array_equal(getattr(plain, field), getattr(cost, field), field)
        for field in ("words", "hops", "bytes"):
            np.testing.assert_array_equal(getattr(plain.traffic, field), getattr(cost.traffic, field), field)


@pytest.mark.parametrize("name", CASES)
def test_words_on_physical_links_equal_those_of_execution(name: str) -> None:
    program = compiled(name)
    meshes = broken_meshes(program)
    engine = Engine(program, tiny_spec(layers=6), tensors(tiny_spec(layers=6)).__getitem__)
    list(engine.prefill(range(3, 12)))
    for _ in range(TOKENS):
        engine.decode()
    transposed_if_needed = transposed_words if program.is_transposed else np.asarray
    moved = [
        transposed_if_needed(mesh.physical_words(transposed_if_needed(words)))
        for mesh, words in zip(meshes, engine.link_words(), strict=True)
    ]
    costs = costs_of(fabric_of(program, meshes))
    links = sum(cost.links for cost in costs)
    np.testing.assert_array_equal(links, np.stack(moved))
    assert sum(int(cost.traffic.hops.sum()) for cost in costs) == links.sum()
    for mesh, words in zip(meshes, map(transposed_if_needed, links), strict=True):
        assert not words[:, mesh.fabric.dead].any()
        assert not words[1, mesh.fabric.east].any()
        assert not words[2, mesh.fabric.south].any()
        assert not words[3, :, 1:][mesh.fabric.east[:, :-1]].any()
        assert not words[0, 1:][mesh.fabric.south[:-1]].any()


def test_defects_add_hops_and_cycles() -> None:
    program = compiled("three regions")
    plain, broken = fabric_of(program), fabric_of(program, broken_meshes(program))
    for before, after in zip(costs_of(plain), costs_of(broken), strict=True):
        assert after.cycles > before.cycles
        np.testing.assert_array_equal(after.traffic.words, before.traffic.words)
        assert (after.traffic.hops >= before.traffic.hops).all()
    token, slower = plain.decode_cost(9), broken.decode_cost(9)
    assert all(token.cause(cause) == slower.cause(cause) for cause in ("compute", "crossing", "host"))
    assert slower.cause("hops") > token.cause("hops")


@pytest.mark.parametrize("name", ["three regions", "two wafers"])
def test_words_of_all_layers_equal_those_on_physical_links(name: str) -> None:
    program = compiled(name)
    fabric = fabric_of(program, broken_meshes(program))
    runs = {(len(program.phases) - 1, *fabric.cache_use([9])): 3}
    expected = 3 * fabric.decode_cost(9).links
    total = np.zeros_like(expected)
    for part in layer_links(fabric, runs, {}):
        row, col, rows, cols = part.rect
        total[part.wafer, :, row : row + rows, col : col + cols] += len(part.layers) * part.words
    np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("name", ["three regions", "a region on two wafers", "transposed"])
def test_longest_line_has_the_maximum_hops_of_all_regions_of_a_shape(name: str) -> None:
    program = compiled(name)
    routes = fabric_of(program, broken_meshes(program)).routes
    meshes = routes.meshes
    for axis in (ROWS, COLUMNS):
        hops = []
        for stage in program.stages:
            row, col, rows, cols = stage.rect
            ends = (slice(row, row + rows - axis), slice(col, col + cols - 1 + axis))
            hops.append(np.concatenate([meshes[wafer].hops[axis][ends] for wafer in stage.wafers], axis=axis))
        for index, stage in enumerate(program.stages):
            line = routes.line(index, axis)
            same_shape = [each for each, s in zip(hops, program.stages, strict=True) if s.rect[2:] == stage.rect[2:]]
            assert line.places[stage.rect[3 - axis] - 1] == max(each.sum(axis=1 - axis).max() for each in same_shape)
            assert line.farthest == max(each.max() for each in same_shape)
            assert len(line.places) == (stage.cols if axis == ROWS else stage.rect.rows)


COSTS = LineCosts.of(load_wafer("wse3"), gap=7, relay=3, sync=50)
PATTERNS: dict[str, Callable[[int], LineSchedule]] = {
    "chain": lambda length: chain(length, 1, Arrival.ADD),
    "k_tree": lambda length: k_tree(length, 1, Arrival.ADD, broadcast=True),
    "multicast": lambda length: multicast(length, 1, length // 3),
    "ring_shift": lambda length: ring_shift(length, 1),
    "ring_all_reduce": lambda length: ring_all_reduce(length, 1, Arrival.ADD),
}


def stretched(schedule: LineSchedule, places: I32) -> LineSchedule:
    """Return the pattern on a longer line, between the PEs at ``places``; the other PEs only forward."""
    messages = schedule.messages.copy()
    messages[:, :2] = places[messages[:, :2]]
    return replace(schedule, length=int(places[-1]) + 1, messages=messages)


@given(st.sampled_from(sorted(PATTERNS)), st.lists(st.integers(1, 5), min_size=1, max_size=14), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_detours_cost_the_same_as_a_longer_line(name: str, hops: list[int], words: int) -> None:
    places = np.array([0, *accumulate(hops)], np.int32)
    pattern = PATTERNS[name](len(places))
    line = LongestLine.of(np.array(hops), max(hops), 1)
    times = PatternTimes(COSTS)
    for variant in range(len(pattern.first) - 1):
        got = times.time([LinePattern(pattern, variant, words, ROWS, line)])
        expected = times.time([LinePattern(stretched(pattern, places), variant, words, ROWS)])
        assert (*got.cycles, got.contention_cycles) == pytest.approx((*expected.cycles, expected.contention_cycles))
        assert got.streams == expected.streams


@given(st.lists(st.integers(1, 5), min_size=3, max_size=20), st.integers(1, 60))
@settings(max_examples=12, deadline=None)
def test_rounds_with_detours_cost_the_same_as_on_a_longer_line(hops: list[int], words: int) -> None:
    places = np.array([0, *accumulate(hops)], np.int32)
    pattern = ring_reduce(len(places))
    got = rounds_of(pattern, words, 20, COSTS, places.astype(np.int64))
    assert got == rounds_of(stretched(pattern, places), words, 20, COSTS)


def test_store_and_forward_rounds_pay_the_full_distance_per_message() -> None:
    pattern = ring_reduce(9, store_and_forward=True)
    one_hop, four_hops = (rounds_of(pattern, 30, 11, COSTS, np.arange(9) * hops).first.total for hops in (1, 4))
    max_messages = max(len(pattern.line_messages(line)) for line in range(9))
    assert one_hop == rounds_of(pattern, 30, 11, COSTS).first.total
    assert four_hops - one_hop == max_messages * 3 * COSTS.hop  # one after another


def test_streams_on_a_shared_physical_link_cost_the_sum_of_their_words() -> None:
    line = LongestLine.of(np.ones(19, np.int64), 1, 3)
    times, pattern = PatternTimes(COSTS), multicast(20, 1, 0)
    shared, alone = (
        times.time([LinePattern(pattern, 0, 40, ROWS, line)]),
        times.time([LinePattern(pattern, 0, 120, ROWS)]),
    )
    assert shared == alone
