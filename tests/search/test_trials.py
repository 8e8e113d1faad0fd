"""Tests of trials: the time of the output head, requests in flight, and equal regions that are tried only once."""

from dataclasses import replace
from math import inf

import pytest
from session import SOFTWARE, wafer
from timed_search import timing_of
from tiny_model import tiny_spec

from wse.compiler.options import OPTIMIZED, THIN_GEMM, Options
from wse.compiler.search.exploring.explore import explore
from wse.compiler.search.fitting.chunks import head_chunks, largest_chunks
from wse.compiler.search.layer_cycles import cycles_by_step
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trials.trial import cycles_between_requests
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import try_layout
from wse_mappings.regions.layout import Layout

OPTIONS = Options(
    mapping="auto",
    wafers=1,
    dtype="float16",
    accumulate="float32",
    context=64,
    prompt_tokens=(8,),
    schedule=OPTIMIZED,
)
MACHINE = wafer(24, 17)
SETUP = TrialSetup(
    spec=tiny_spec(layers=3, hidden=96, ffn=256, vocab=4000),
    wafer=MACHINE,
    software=SOFTWARE,
    options=OPTIONS,
    rewrites=(),
    timing=timing_of(MACHINE, SOFTWARE, 50, 30),
)


@pytest.mark.parametrize("layout", [Layout("bands", 1, 1), Layout("bands", 2, 1)], ids=["one region", "two regions"])
def test_trial_times_the_head_with_the_largest_chunk_that_fits(layout: Layout) -> None:
    chunks = head_chunks(SETUP, layout)
    chosen = largest_chunks(replace(SETUP, timing=None), try_layout(replace(SETUP, timing=None), layout, THIN_GEMM))
    assert chosen.head_chunk == chunks[0] > 4 * chunks[-1]

    def token_cycles(head_chunk: int) -> float:
        """Return the cycles of a token on a reduced model with a given head chunk."""
        options, choice = SETUP.smallest_choice(layout, THIN_GEMM)
        choice = replace(choice, head_chunk=head_chunk)
        reduced = reduced_model(SETUP.spec, SETUP.wafer, SETUP.software, options, choice).allocate()
        program = reduced.program()
        (cycles,) = cycles_by_step(SETUP, program, (len(program.prefill),))
        return reduced.sum_over_model(program, program.decode, cycles.all)

    trial = try_layout(SETUP, layout, THIN_GEMM)
    assert trial.token_cycles == pytest.approx(token_cycles(chosen.head_chunk), rel=0.002)
    assert trial.token_cycles < 0.99 * token_cycles(chunks[-1])


def test_slowest_stage_limits_a_trial_for_many_users() -> None:
    """One of the two stages has two of the three layers, so more than two thirds of the cycles are on this stage."""
    trial = try_layout(replace(SETUP, users=inf), Layout("bands", 2, 1), THIN_GEMM)
    assert trial.passes > 100
    assert 2 / 3 < trial.busiest_cycles / trial.generated_cycles < 0.8
    assert trial.decode_cycles == pytest.approx(trial.busiest_cycles, rel=0.01)


@pytest.mark.parametrize(("requests", "cycles"), [(1, 100.0), (4, 25.0), (10, 10.0), (40, 10.0)])
def test_cycles_between_requests_are_those_of_the_request_or_of_the_slowest_stage(requests: int, cycles: float) -> None:
    assert cycles_between_requests(100.0, 10.0, requests) == cycles


def test_search_tries_equal_regions_once() -> None:
    trials = explore(SETUP)
    keys = [SETUP.reduced_model(trial.layout, trial.prefill).place_key for trial in trials if not trial.layout.groups]
    assert len(keys) > 3
    assert len({*keys}) == len(keys)
