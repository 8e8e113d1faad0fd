"""Tests of the choice between nearly fastest layouts by their room for KV caches."""

from functools import cache, partial

import pytest
from tiers import AT_REQUEST

from wse.compiler.search.search import search
from wse.compiler.search.trials.trial import MARGIN
from wse.studies.compile.choose import NARROW, compile_fastest
from wse.studies.compile.layout_changes import (
    Version,
    longer_chunks,
    planned_for_more_users,
    recompiled,
    shorter_chunks,
    users_that_fit,
    variants,
)
from wse.studies.compile.request_time import request_cycles, timing_of
from wse.studies.compile.room import with_most_room
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.results.sram import users_at


def test_chosen_layout_is_nearly_fastest_and_no_version_of_it_is_roomier() -> None:
    prepared = prepare_estimate(make_request(EstimateRequest, model="story", mesh="32x32", wafers=1))
    cycles, tokens = cache(partial(request_cycles, prepared)), prepared.tokens_per_user
    machine = prepared.spec, prepared.wafer, prepared.software, prepared.options
    found = search(*machine, cycles, timing_of(prepared), NARROW)
    chosen = with_most_room(prepared, found, cycles)
    room, chosen_cycles = users_at(chosen.program, tokens), cycles(chosen.candidates[0].program)
    assert room > users_at(found.program, tokens)
    assert users_at(compile_fastest(prepared).program, tokens) == room
    assert chosen_cycles <= (1 + MARGIN) * cycles(found.program)
    assert chosen.compiled_trials[0][1] == chosen_cycles
    assert len(chosen.compiled_trials) == len(chosen.candidates) == len(found.candidates)
    original = Version(prepared, chosen.options, chosen.choice)
    for version in (*variants(original), *planned_for_more_users(original), *shorter_chunks(original)):
        if users_that_fit(version, tokens) > room:
            candidate = recompiled(version)
            fastest_cycles = min(chosen_cycles, cycles(found.program))
            assert candidate is None or cycles(candidate.program) > (1 + MARGIN) * fastest_cycles


@pytest.mark.slow
@AT_REQUEST
def test_prompt_chunks_are_doubled_if_they_only_fit_on_the_roomier_layout() -> None:
    prepared = prepare_estimate(make_request(EstimateRequest, model="qwen3-32b", dtype="int4", wafers=1))
    cycles, tokens = cache(partial(request_cycles, prepared)), prepared.tokens_per_user
    machine = prepared.spec, prepared.wafer, prepared.software, prepared.options
    found = search(*machine, cycles, timing_of(prepared), NARROW)
    assert not any(users_that_fit(v, tokens) for v in longer_chunks(Version(prepared, found.options, found.choice)))
    chosen = with_most_room(prepared, found, cycles)
    assert chosen.choice.prefill_chunk == 2 * found.choice.prefill_chunk
    assert cycles(chosen.program) < 0.99 * cycles(found.program)
