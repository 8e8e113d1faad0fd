"""Tests of fitted trees: the cheapest number of groups, the savings, and where trees stay unchanged."""

from dataclasses import replace
from typing import Any

import pytest
from timed_search import OPTIONS, TOKENS, cost_of, machine_of, timing_of
from tiny_model import tiny_spec

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import pattern_times
from wse.compiler.choice import Choice
from wse.compiler.options import BASELINE, DECODE, FITTED_TREES, PREFILL, THIN_GEMM, VERIFY
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.fitted_trees import groups_of
from wse.compiler.search.fitting.tree_costs import FEWER_GROUPS, cheapest_groups, min_cycles
from wse.compiler.search.search import Compilation, search
from wse.compiler.search.trees import fit_trees, with_group_count, with_refitted_trees
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse_mappings.patterns.k_tree import EQUAL_GROUPS, group_count, k_tree
from wse_mappings.regions.layout import Layout
from wse_mappings.schedule import Arrival

SAVING_TOLERANCE = 0.04
"""Relative tolerance of savings: cycles are rounded, and some all-reduces run in parallel with longer steps."""

WIDE = tiny_spec(hidden=480, heads=8, kv_heads=4, head_size=32, ffn=960, vocab=500)


def setup_of(machine: WaferSpec, software: SoftwareProfile) -> TrialSetup:
    """Return the setup of trials of the wide model."""
    timing = timing_of(machine, software)
    return TrialSetup(spec=WIDE, wafer=machine, software=software, options=OPTIONS, rewrites=(), timing=timing)


def compilation(**options: Any) -> Compilation:
    """Search for a layout of the wide model with changed options."""
    machine, software = machine_of()
    return search(WIDE, machine, software, replace(OPTIONS, **options), timing=timing_of(machine, software))


def cycles_of(compiled: Compilation, choice: Choice, phase: str) -> float:
    """Return the cycles of the first phase with a name, for a choice."""
    machine, software = machine_of()
    program = compile_choice(WIDE, machine, software, compiled.options, choice)
    number = next(number for number, one in enumerate(program.phases) if one.name == phase)
    return cost_of(program, number, machine, software).cycles


@pytest.mark.parametrize(("wafer", "profile"), [("wse3", "production"), ("wse2", "academic")])
def test_groups_are_the_cheapest_of_those_that_are_tried(wafer: str, profile: str) -> None:
    machine, software = machine_of(wafer, profile)
    setup = setup_of(machine, software)
    times = pattern_times(LineCosts.for_software(machine, software))
    fitted = set()
    for pes in (1, 4, 17, 48, 121, 331, 755):
        for words in (1, 96, 1500):
            counts = {group_count(pes), *(n for n in FEWER_GROUPS if n < group_count(pes))}
            cycles = {
                groups: times.alone_cycles(k_tree(pes, 1, Arrival.ADD, broadcast=True, groups=groups_of(groups)), words)
                for groups in counts
            }
            chosen = cheapest_groups(setup, pes, {0: words})
            assert cycles[chosen.groups] == min(cycles.values())
            assert chosen.cycles[0] == cycles[group_count(pes)] - min(cycles.values())
            assert all(min_cycles(pes, n, words, machine, software) <= cycles[n] for n in counts if pes > 1)
            fitted.add(chosen.groups)
    assert len(fitted) > 3


def test_words_of_several_stages_are_fitted_together() -> None:
    setup = setup_of(*machine_of())
    few_words, many_words = (cheapest_groups(setup, 121, {0: words}) for words in (1, 1500))
    together = cheapest_groups(setup, 121, {0: 1, 3: 1500})
    assert few_words.groups == group_count(121)
    assert together.groups == many_words.groups < few_words.groups
    assert together.cycles[3] == many_words.cycles[0] > -together.cycles[0] > 0


def check_saving(saved: float, reported: float) -> None:
    """Check a saving up to rounding and to rewrites of routes, which may differ between layers."""
    rewrites = 3 * machine_of()[1].route_rewrite_cycles
    assert abs(saved - reported) <= SAVING_TOLERANCE * reported + rewrites


def test_trees_save_the_reported_cycles() -> None:
    compiled = compilation()
    choice = compiled.choice
    assert choice.trees
    assert dict(choice.rewrites)[FITTED_TREES]
    (trial,) = (one for one in compiled.rewrites if one.name == FITTED_TREES)
    without = replace(choice, trees=())
    saved = {phase: cycles_of(compiled, without, phase) for phase in (PREFILL, DECODE)}
    saved = {phase: cycles - cycles_of(compiled, choice, phase) for phase, cycles in saved.items()}
    check_saving(saved[DECODE], trial.saved_cycles)
    assert saved[PREFILL] > 0
    assert {size.phase for size, _ in choice.trees} <= {PREFILL, DECODE}


def test_verification_passes_have_separate_trees() -> None:
    compiled = compilation(verify_tokens=24)
    sizes = [size for size, _ in compiled.choice.trees if size.phase == VERIFY]
    assert sizes
    without = replace(compiled.choice, trees=())
    saved = cycles_of(compiled, without, VERIFY) - cycles_of(compiled, compiled.choice, VERIFY)
    reported = {one.name: one.saved_cycles for one in compiled.verify_rewrites}[FITTED_TREES]
    assert saved == pytest.approx(reported, rel=2 * SAVING_TOLERANCE)  # all-reduces of scores overlap with exponentials
    assert saved > 0


@pytest.mark.parametrize("options", [{"schedule": BASELINE}, {"schedule": "joined-tasks"}, {"groups": EQUAL_GROUPS}])
def test_groups_do_not_change_if_trees_are_not_fitted(options: dict[str, Any]) -> None:
    compiled = compilation(**options)
    assert not compiled.choice.trees
    assert FITTED_TREES not in dict(compiled.choice.rewrites)
    assert FITTED_TREES not in {one.name for one in compiled.rewrites}


def test_trees_do_not_add_route_rewrites_that_cost_more_than_they_save() -> None:
    machine, software = machine_of(mesh=(40, 200))
    rewrites = []
    for rewrite_cycles in (0, 100_000):
        costly = replace(software, route_rewrite_cycles=rewrite_cycles)
        setup = setup_of(machine, costly)
        choice = setup.choice(layout := Layout("region", 1, 1), THIN_GEMM, TOKENS, 9)
        fitted = fit_trees(setup, layout, choice).choice
        assert fitted.trees
        programs = [compile_choice(WIDE, machine, costly, OPTIONS, one) for one in (choice, fitted)]
        rewrites.append(
            [sum(int(phase.steps.route_rewrites.sum()) for phase in program.phases) for program in programs]
        )
    assert rewrites[0][1] > rewrites[0][0] == rewrites[1][0] >= rewrites[1][1]


def test_trees_are_fitted_again_after_a_change_of_chunks() -> None:
    """Trees of the other chunks have other message lengths, so that none of them would be used for prompts."""
    compiled = compilation()
    machine, software = machine_of()
    changed = replace(compiled.choice, prefill_chunk=max(1, compiled.choice.prefill_chunk // 2))
    inputs = WIDE, machine, software, compiled.options
    refitted = with_refitted_trees(*inputs, changed, timing_of(machine, software))
    assert refitted.rewrites == compiled.choice.rewrites
    assert replace(refitted, trees=()) == replace(changed, trees=())
    assert {size for size, _ in refitted.trees} != {size for size, _ in changed.trees}
    assert cycles_of(compiled, refitted, PREFILL) < cycles_of(compiled, changed, PREFILL)
    without = changed.without_rewrite(FITTED_TREES)
    assert with_refitted_trees(*inputs, without, timing_of(machine, software)) == without


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_with_group_count_sets_the_groups_of_all_fitted_all_reduces(groups: int) -> None:
    machine, software = machine_of()
    plain = Choice(prefill=THIN_GEMM, prefill_chunk=TOKENS, head_chunk=9)
    choice = with_group_count(WIDE, machine, software, OPTIONS, plain, groups)
    assert {count for size, count in choice.trees if size.pes >= groups} == {groups}
    colours = {
        use.colours
        for use in compile_choice(WIDE, machine, software, OPTIONS, choice).colour_uses
        if use.pattern == "all_reduce"
    }
    assert (6 in colours) == (groups == 1)
