"""Tests of the link word counts per layer: against the sum over every step of every run, and against phase costs."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.arrays import I64
from wse.backends.fabric.links import layer_links as module
from wse.backends.fabric.links.layer_links import LayerLinks, Runs, layer_links
from wse.backends.fabric.links.traffic import Traffic
from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice, Rewrites
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.program.program import Program
from wse.program.steps import Slots
from wse.program.transfers.patterns import CacheShift
from wse.program.transfers.transfer_types import is_of_type

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=67)
SMALL, LARGE = wafer(6, 5, 1 << 20), wafer(9, 8, 1 << 20)
LENGTHS = range(9, 21)
"""Cache lengths before the decoded tokens: more than a region has rows."""
CASES = {
    "one region": (SMALL, OPTIONS, CHOICE),
    "three regions": (LARGE, replace(OPTIONS, mapping="pipeline"), replace(CHOICE, bands=3)),
    "two wafers": (
        wafer(6, 6, 1 << 20),
        replace(OPTIONS, wafers=2),
        replace(CHOICE, prefill="mesh-gemm", prefill_chunk=6),
    ),
    "two wafers of two regions": (
        LARGE,
        replace(OPTIONS, mapping="pipeline", wafers=2, region=(4, 4)),
        replace(CHOICE, per_band=2),
    ),
    "one PE": (wafer(1, 1, 1 << 20), OPTIONS, CHOICE),
}


def compiled(name: str) -> tuple[Program, Fabric]:
    machine, options, choice = CASES[name]
    program = compile_choice(tiny_spec(layers=6), machine, SOFTWARE, options, choice)
    return program, Fabric(program, machine, SOFTWARE)


def runs_of(program: Program) -> Runs:
    """Return the run counts of two equal requests, each with three prompt chunks and twelve decoded tokens."""
    runs: dict[tuple[int, Slots, tuple[int, ...]], int] = {}
    for index, phase in enumerate(program.prefill):
        runs[index, program.cache_slots(phase.cached + phase.tokens), ()] = 2
    for length in LENGTHS:
        runs[len(program.phases) - 1, program.cache_slots(length + 1), (length,)] = 2
    return runs


def sum_of_maps(program: Program, maps: list[LayerLinks], layer: int | None = None) -> I64:
    """Return the words on all links, int64 ``[wafers, 4, rows, cols]``: of one layer, or of all layers if None."""
    total = np.zeros((program.wafers, 4, program.wafer_rows, program.wafer_cols), np.int64)
    for part in maps:
        row, col, rows, cols = part.rect
        for covered_layer in part.layers:
            if layer in (None, covered_layer):
                total[part.wafer, :, row : row + rows, col : col + cols] += part.words
    return total


@pytest.mark.parametrize("name", ["three regions", "two wafers"])
def test_words_of_a_layer_equal_the_sum_over_its_steps(name: str) -> None:
    program, fabric = compiled(name)
    runs = runs_of(program)
    found = list(layer_links(fabric, runs, {}))
    traffic = Traffic(program)

    @cache
    def moved(index: int, step: int, slots: Slots) -> I64:
        return fabric.routes.words(traffic.step_traffic(program.phases[index], step, slots).rectangles)

    for layer in sorted(set(program.op_layers)):
        expected = np.zeros_like(fabric.decode_cost(4).links)
        for (index, slots, lengths), times in runs.items():
            phase = program.phases[index]
            for step in np.flatnonzero(np.array(program.op_layers)[phase.steps.op] == layer).tolist():
                if not is_of_type(phase.steps, CacheShift)[step]:
                    expected += times * moved(index, step, slots)
                elif lengths:
                    shifted = traffic.shift_traffic(phase, step, slots, lengths)
                    expected += times * fabric.routes.words(shifted.rectangles)
        assert np.array_equal(sum_of_maps(program, found, layer), expected), layer


@pytest.mark.parametrize("name", CASES)
def test_words_of_all_layers_equal_the_links_of_the_phase_costs(name: str) -> None:
    program, fabric = compiled(name)
    found = list(layer_links(fabric, runs_of(program), {}))
    costs = [fabric.prefill_cost(index) for index in range(len(program.prefill))]
    costs += [fabric.decode_cost(length) for length in LENGTHS]
    assert np.array_equal(sum_of_maps(program, found), 2 * sum(cost.links for cost in costs))
    assert bool(found) == (name != "one PE")
    layers_and_wafers = [(layer, part.wafer) for part in found for layer in part.layers]
    assert len(set(layers_and_wafers)) == len(layers_and_wafers)


@pytest.mark.parametrize(("name", "max_maps"), [("one region", 2), ("two wafers", 6)])
def test_equal_layers_are_computed_once(name: str, max_maps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program, fabric = compiled(name)
    maps: list[int] = []
    original_link_map = module.link_map
    monkeypatch.setattr(module, "link_map", lambda *given: maps.append(1) or original_link_map(*given))
    found = list(layer_links(fabric, runs_of(program), {}))
    assert len(maps) == len(found) <= max_maps
    assert sum(len(part.layers) for part in found) > max_maps


@pytest.mark.parametrize("shares", [(), (("shared-activation", 4), ("joint-shares", 1))])
def test_words_of_shared_experts_are_counted_in_every_run(shares: Rewrites) -> None:
    """The sums of a shared expert are sent together with those of a column's token-expert pairs.

    The number of pairs differs from token to token. Five features of two bytes do not fill whole words, so the shard
    of a pair includes padding.
    """
    spec = mixture_spec(MIXTURES["shared"])
    assert spec.experts is not None
    spec = replace(spec, experts=replace(spec.experts, ffn_size=5))
    options = replace(OPTIONS, experts="dedicated", dtype="bfloat16")
    choice = replace(CHOICE, rewrites=(("joint-blocks", 1), *shares))
    program = compile_choice(spec, SMALL, SOFTWARE, options, choice)
    fabric, decode = Fabric(program, SMALL, SOFTWARE), len(program.phases) - 1
    by_token = {9: np.array([1, 0, 1, 0, 0]), 10: np.array([1, 1, 0, 0, 0]), 11: np.array([0, 0, 0, 1, 1])}
    runs = {(decode, program.cache_slots(length + 1), (length,)): 1 for length in by_token}
    found = list(layer_links(fabric, runs, {decode: {1: np.array(sum(by_token.values()))}}))
    costs = [fabric.decode_cost(length, expert_tokens={1: pairs}) for length, pairs in by_token.items()]
    assert np.array_equal(sum_of_maps(program, found), sum(cost.links for cost in costs))
