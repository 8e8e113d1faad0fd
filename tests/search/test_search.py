"""Tests of the search: the result fits, the next smaller mesh does not, and suggestions are right."""

import math
from bisect import bisect_left
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from compiled import compile_model
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from timed_search import timing_of
from tiny_model import tiny_spec

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE, OPTIMIZED, THIN_GEMM, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.exploring.exploration import MAX_PLACED
from wse.compiler.search.fallback_layouts import with_cut_blocks
from wse.compiler.search.feasibility import fits
from wse.compiler.search.finalists import Finalists
from wse.compiler.search.reduced.misfits import Misfits
from wse.compiler.search.remedies import remedies
from wse.compiler.search.search import Compilation, search
from wse.compiler.search.smallest_mesh import smallest_square
from wse.compiler.search.trials.trial import TRIAL_ERROR, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import try_layout
from wse.errors import BadMesh, DoesNotFit
from wse.hardware.load import load_wafer
from wse.hardware.spec import mesh_on
from wse.program.program import Program
from wse.studies.compile.request_time import request_cycles
from wse.studies.compile.request_time import timing_of as timing_of_request
from wse.studies.estimate.layouts.searches import MANY_USERS
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse_mappings.cuts.expert_groups import AUTO, DISTRIBUTED, GROUPED
from wse_mappings.regions.layout import Layout
from wse_mappings.strategies.catalogue import bundled_strategies

SPEC = tiny_spec(layers=3, hidden=96, ffn=256, vocab=500)
OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=200, prompt_tokens=(40,))


def test_smallest_square_fits_and_the_next_smaller_does_not() -> None:
    full_wafer = load_wafer("wse2")
    side = smallest_square(SPEC, full_wafer, SOFTWARE, OPTIONS)
    assert side is not None
    assert side > 1
    assert fits(SPEC, mesh_on(full_wafer, side, side), SOFTWARE, OPTIONS)
    assert not fits(SPEC, mesh_on(full_wafer, side - 1, side - 1), SOFTWARE, OPTIONS)
    compile_model(SPEC, mesh_on(full_wafer, side, side), SOFTWARE, OPTIONS)


def test_misfits_on_fewer_wafers_do_not_change_what_fits() -> None:
    spec = tiny_spec(layers=12, ffn=256)
    options = replace(OPTIONS, mapping="auto", dtype="float16", context=40, prompt_tokens=(9,))
    misfits = Misfits()
    separate_results, shared_results = (
        [fits(spec, wafer(3, 3), SOFTWARE, replace(options, wafers=n), *misfit_arguments) for n in range(1, 7)]
        for misfit_arguments in ((), (misfits,))
    )
    assert shared_results == separate_results
    assert {True, False} == {*separate_results}
    assert len(misfits)


@pytest.mark.parametrize("rows", [6, 5])
def test_verification_pass_that_does_not_fit_gets_a_number_of_tokens_that_does(rows: int) -> None:
    """The error suggests fewer tokens, or no verification if a token alone needs all memory."""
    sizes = range(30_000, 70_000, 200)
    min_bytes = sizes[bisect_left(sizes, 1, key=lambda size: fits(SPEC, wafer(rows, 6, size), SOFTWARE, OPTIONS))]
    small, verify_options = wafer(rows, 6, min_bytes + 3000 * (rows == 6)), replace(OPTIONS, verify_tokens=60)
    assert not fits(SPEC, small, SOFTWARE, verify_options)
    found = [each for each in remedies(SPEC, small, small, SOFTWARE, verify_options) if "--verify-tokens" in each]
    if rows == 5:
        assert found == ["no --verify-tokens"]
        assert not fits(SPEC, small, SOFTWARE, replace(verify_options, verify_tokens=2))
    else:
        ((_, tokens),) = (each.split() for each in found)
        assert fits(SPEC, small, SOFTWARE, replace(verify_options, verify_tokens=int(tokens)))
        assert not fits(SPEC, small, SOFTWARE, replace(verify_options, verify_tokens=int(tokens) + 1))


def test_maximum_number_of_users_is_found_in_few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def at_most_seven(*given: object) -> bool:
        options = given[3]
        assert isinstance(options, Options)
        tried.append(options.batch)
        return options.batch <= 7 and options.wafers == 1 and options.dtype == OPTIONS.dtype

    monkeypatch.setattr("wse.compiler.search.smallest_mesh.fits", at_most_seven)
    many_users = replace(OPTIONS, prompt_tokens=OPTIONS.prompt_tokens * 4096)
    found = remedies(SPEC, wafer(9, 9), wafer(9, 9), SOFTWARE, many_users, lambda users: f"--batch {users}")
    assert found == ["--batch 7"]
    assert len({*tried} - {4096}) <= 1 + np.log2(4096)


@pytest.mark.parametrize(("users", "cache_tokens"), [(0, 5_000), (2, 5_000), (40, 4_000)])
def test_shorter_context_keeps_the_tokens_that_caches_must_hold(
    users: int, cache_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Options] = []

    def never(*given: object) -> bool:
        assert isinstance(given[3], Options)
        tried.append(given[3])
        return False

    monkeypatch.setattr("wse.compiler.search.remedies.fits", never)
    remedies(SPEC, wafer(9, 9), wafer(9, 9), SOFTWARE, replace(OPTIONS, cache_tokens=cache_tokens), users=users)
    with_less_context = [options for options in tried if options.context < OPTIONS.context]
    assert with_less_context
    assert all(each.cache_tokens == max(cache_tokens, users * each.context) for each in with_less_context)


def test_more_than_256_groups_of_inputs_do_not_fit_and_are_not_suggested() -> None:
    tall = tiny_spec(layers=1, hidden=96, ffn=32 * 300, vocab=500)
    coded = replace(OPTIONS, dtype="int4", activations="float32")
    assert not fits(tall, wafer(40, 1), SOFTWARE, coded)
    with pytest.raises(DoesNotFit, match="as int4: a PE would store 300 groups of inputs"):
        compile_model(tall, wafer(40, 1), SOFTWARE, coded)
    assert not any("int4" in each for each in remedies(tall, wafer(40, 1), wafer(40, 1), SOFTWARE, OPTIONS))


def test_cost_function_decides_between_products_that_fit() -> None:
    machine = wafer(12, 12)

    def prompt_cycles(program: Program) -> float:
        fabric = Fabric(program, machine, SOFTWARE)
        return sum(fabric.prefill_cost(i).cycles for i in range(len(program.prefill)))

    chosen = compile_model(SPEC, machine, SOFTWARE, OPTIONS, prompt_cycles)
    opposite = compile_model(SPEC, machine, SOFTWARE, OPTIONS, lambda p: -prompt_cycles(p))
    assert {chosen.prefill_name, opposite.prefill_name} == {"mesh-gemm", "thin-gemm"}
    assert prompt_cycles(chosen) < prompt_cycles(opposite)
    timed = search(SPEC, machine, SOFTWARE, OPTIONS, prompt_cycles, timing_of(machine, SOFTWARE))
    assert timed.program.prefill_name == chosen.prefill_name


def test_long_prompt_is_cut_into_chunks_that_fit() -> None:
    program = compile_model(SPEC, wafer(9, 9), SOFTWARE, replace(OPTIONS, prompt_tokens=(150,)))
    sizes = [phase.tokens for phase in program.prefill]
    assert sum(sizes) == 150
    assert len(sizes) > 1
    assert all(s.sram_top_byte <= 49152 for s in program.stages)


def test_auto_is_never_slower_than_a_mapping_and_lists_its_trials() -> None:
    machine, options = wafer(8, 9), replace(OPTIONS, wafers=2)

    def cycles(program: Program) -> float:
        fabric = Fabric(program, machine, SOFTWARE)
        prompt = sum(fabric.prefill_cost(i).cycles for i in range(len(program.prefill)))
        return prompt + 500 * fabric.decode_cost(60).cycles

    def found(mapping: str, schedule: str = BASELINE) -> Compilation:
        changed = replace(options, mapping=mapping, schedule=schedule)
        return search(SPEC, machine, SOFTWARE, changed, cycles, timing_of(machine, SOFTWARE, 500, 60))

    best, baseline = found("auto", OPTIMIZED), found("auto")
    fixed = [found(name).program for name in set(bundled_strategies()) - {"auto", "expert"}]
    assert cycles(baseline.program) <= min(map(cycles, fixed)) * 1.001  # layouts are ranked before trees are fitted
    assert cycles(best.program) <= cycles(found("bands", OPTIMIZED).program) * 1.001
    assert cycles(best.program) == best.compiled_trials[0][1] == min(cost for _, cost in best.compiled_trials)
    assert {trial.layout.mapping for trial in best.trials} == {"bands", "tensor"}
    assert any(trial.layout.mesh is not None for trial in best.trials)
    assert not any(trial.layout.groups for trial in best.trials)  # each all-reduce has separate groups
    assert any(trial.layout.groups for trial in baseline.trials)


def test_time_of_a_prompt_in_one_chunk_excludes_the_wait_for_the_host() -> None:
    """The wait is the same for all layouts and chunks, and later chunks do not have it."""
    machine = wafer(8, 8)
    timing = timing_of(machine, SOFTWARE, 10, 60)
    options = replace(OPTIONS, mapping="region", region=(8, 8), prompt_tokens=(8,))
    setup = TrialSetup(spec=SPEC, wafer=machine, software=SOFTWARE, options=options, rewrites=(), timing=timing)
    (layout,) = setup.layouts()
    prompts = try_layout(setup, layout, THIN_GEMM).prompts
    assert prompts is not None
    program = compile_model(SPEC, machine, SOFTWARE, options)
    cost = Fabric(program, machine, SOFTWARE).prefill_cost(0)
    host_cycles = cost.by_cause[:, CAUSES.index("host")].sum()
    assert prompts.chunk == 8
    assert prompts.cycles < cost.cycles - 0.9 * host_cycles


@pytest.mark.slow
def test_fastest_layouts_are_tried_with_grouped_experts_even_if_others_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec, machine = mixture_spec(MIXTURES["shared"], layers=3), wafer(6, 8)
    options = replace(OPTIONS, mapping="auto", schedule=OPTIMIZED, experts=AUTO)

    timing = timing_of(machine, SOFTWARE, 500, 60)
    tried: list[str | None] = []

    def refuse_groups(setup: TrialSetup, layout: Layout, prefill: str, worth_cycles: float = math.inf) -> Trial:
        tried.append(layout.experts)
        if layout.experts is not None:
            raise BadMesh("groups do not fit")
        return try_layout(setup, layout, prefill, worth_cycles)

    with monkeypatch.context() as patch:  # a failing trial does not end the search
        patch.setattr("wse.compiler.search.exploring.exploration.try_layout", refuse_groups)
        without = search(spec, machine, SOFTWARE, options, timing=timing)
    assert GROUPED in tried
    assert {trial.layout.experts for trial in without.trials} == {None}
    trials = search(spec, machine, SOFTWARE, options, timing=timing).trials
    ungrouped = [trial for trial in trials if trial.layout.experts is None and trial.prompts is not None]
    ungrouped = [
        trial for trial in ungrouped if trial.layout.groups is None
    ]  # layouts with other all-reduce groups are tried later
    fastest = sorted(ungrouped, key=lambda trial: trial.request_cycles)[:MAX_PLACED]
    assert len(fastest) > 1
    grouped = {trial.layout for trial in trials if trial.layout.experts and trial.layout.groups is None}
    assert grouped == {trial.layout._replace(experts=GROUPED) for trial in fastest}


@pytest.mark.slow
def test_experts_are_grouped_if_the_model_does_not_fit_otherwise() -> None:
    """An expert has nine features.

    On eight columns there are two features each. In groups of two columns there are five each, of a
    quarter of the experts.
    """
    spec = mixture_spec(replace(MIXTURES["shared"], count=8, ffn_size=9))
    options = replace(OPTIONS, mapping="auto", schedule=OPTIMIZED, experts=AUTO)

    def min_sram(**changes: str) -> int:
        """Return the smallest SRAM in which the model fits, in steps of 64 bytes."""
        changed = replace(options, **changes)
        sizes = range(23552, 32768, 64)
        return sizes[bisect_left(sizes, 1, key=lambda size: fits(spec, wafer(4, 8, size), SOFTWARE, changed))]

    distributed_sram = min_sram(experts=DISTRIBUTED)
    assert min_sram(mapping="region") == min_sram(mapping="region", experts=DISTRIBUTED)
    assert min_sram(schedule=BASELINE) == min_sram(schedule=BASELINE, experts=DISTRIBUTED)
    for sram_bytes, is_distributed in ((distributed_sram, True), (distributed_sram - 64, False)):
        program = compile_model(spec, wafer(4, 8, sram_bytes), SOFTWARE, options)
        assert {mixture.by_column.shape[1] == 8 for mixture in program.mixtures if mixture} == {is_distributed}


def test_layers_are_cut_if_whole_layers_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer is split between two wafers if and only if the whole layers do not fit."""
    options, bands = replace(OPTIONS, mapping="bands", wafers=2, schedule=OPTIMIZED), bundled_strategies()["bands"]

    def min_sram_bytes() -> int:
        low, high = 5_000, 200_000
        while high - low > 100:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(SPEC, wafer(4, 4, middle), SOFTWARE, options) else (middle, high)
        return high

    cut_bytes = min_sram_bytes()
    monkeypatch.setattr(bands, "block_parts", ())
    whole_bytes = min_sram_bytes()
    monkeypatch.undo()
    assert cut_bytes < whole_bytes
    program = compile_model(SPEC, wafer(4, 4, cut_bytes), SOFTWARE, options)
    assert any(stage.first_part for stage in program.stages)
    assert all(
        not stage.first_part for stage in compile_model(SPEC, wafer(4, 4, whole_bytes), SOFTWARE, options).stages
    )
    assert not fits(SPEC, wafer(4, 4, cut_bytes), SOFTWARE, replace(options, schedule=BASELINE))


def test_block_with_a_norm_after_it_is_never_cut() -> None:
    options = replace(OPTIONS, mapping="auto", wafers=2, schedule=OPTIMIZED)
    setup = TrialSetup(
        spec=replace(SPEC, post_norms=True), wafer=wafer(4, 4), software=SOFTWARE, options=options, rewrites=()
    )
    assert with_cut_blocks(setup, setup.layouts()) == []
    assert with_cut_blocks(replace(setup, spec=SPEC), setup.layouts())


def test_no_unused_rewrite_makes_the_chosen_layout_faster(test_data: Path) -> None:
    request = EstimateRequest(model=str(test_data / "models" / "stories260k"))
    p = prepare_estimate(replace_options(request, mesh="4x4", prompt_len=8, new_tokens=8))
    found = search(p.spec, p.wafer, p.software, p.options, partial(request_cycles, p), timing_of_request(p))
    fewest_cycles = request_cycles(p, found.program)
    unused_rewrites = [one for one in rewrites_of(p.spec, p.options) if not found.choice.uses(one[0])]
    assert unused_rewrites
    for name, setting in unused_rewrites:
        choice = found.choice.with_rewrite(name, setting)
        program = compile_choice(p.spec, p.wafer, p.software, found.options, choice)
        assert request_cycles(p, program) >= fewest_cycles


def test_all_layouts_near_the_fastest_are_compiled_with_their_own_rewrites(monkeypatch: pytest.MonkeyPatch) -> None:
    changed_layouts = []
    monkeypatch.setattr(
        Finalists, "with_own_rewrites", lambda _, finalist, cost: changed_layouts.append(finalist.trial) or finalist
    )
    monkeypatch.setattr(Finalists, "with_more_rewrites", lambda _, finalist, cost: finalist)
    monkeypatch.setattr(Finalists, "with_cheaper_attention", lambda _, finalist, cost: finalist)
    p = prepare_estimate(make_request(EstimateRequest, model="story", mesh="20x20", prompt_len=16, new_tokens=64))
    found = search(p.spec, p.wafer, p.software, p.options, partial(request_cycles, p), timing_of_request(p))
    fewest_cycles = min(cycles for _, cycles in found.compiled_trials)
    near = [trial for trial, cycles in found.compiled_trials if cycles <= (1 + TRIAL_ERROR) * fewest_cycles]
    assert len(near) > 1
    assert {trial.key for trial in near} == {trial.key for trial in changed_layouts}


def test_searches_for_other_numbers_of_users_share_work_without_changing_results(test_data: Path) -> None:
    def search_for(users: float, p: PreparedEstimate) -> Compilation:
        breadth = MANY_USERS._replace(users=users)
        return search(p.spec, p.wafer, p.software, p.options, partial(request_cycles, p), timing_of_request(p), breadth)

    request = EstimateRequest(model=str(test_data / "models" / "stories260k"))
    request = replace_options(request, mesh="6x6", schedule="baseline", prompt_len=8, new_tokens=8)
    shared, alone = prepare_estimate(request), prepare_estimate(request)
    first, expected = search_for(math.inf, shared), search_for(4, alone)
    found = search_for(4, shared)
    assert found.trials == expected.trials
    assert (found.options, found.choice) == (expected.options, expected.choice)
    assert {trial.passes for trial in found.trials if trial.fits} == {4.0}
    assert max(trial.passes for trial in first.trials) > 4
    assert all(a.program is b.program for a, b in zip(first.candidates, found.candidates, strict=True))
