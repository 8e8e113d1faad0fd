"""Tests of changes of layouts: the room for KV caches that is known before a version is compiled."""

import pytest

from wse.compiler.search.search import Breadth
from wse.studies.compile.choose import compile_fastest
from wse.studies.compile.layout_changes import (
    Version,
    longer_chunks,
    planned_for_more_users,
    recompiled,
    shorter_chunks,
    users_that_fit,
    variants,
)
from wse.studies.estimate.layouts.layout_versions import more_slots
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.results.sram import users_at


@pytest.mark.parametrize(("users", "context"), [(1, 96), (8, 256)])
def test_room_of_a_version_equals_that_of_its_program(users: int, context: int) -> None:
    request = make_request(
        EstimateRequest, model="story", mesh="11x11", mapping="region", prompt_len=64, new_tokens=32, context=context
    )
    prepared = prepare_estimate(request)
    program, options, choice = compile_fastest(prepared, Breadth(finalists=1, margin=1.0, users=users)).candidates[0]
    original = Version(prepared, options, choice)
    changed = [
        *variants(original),
        *planned_for_more_users(original),
        *shorter_chunks(original),
        *longer_chunks(original),
    ]
    wider = [more_slots(original)]
    for _ in range(5):
        wider.append(more_slots(wider[-1]))
    versions = [*changed, *wider]
    compiled = [recompiled(version) for version in versions]
    room = [0 if candidate is None else users_at(candidate.program, 96) for candidate in compiled]
    assert [users_that_fit(version, 96) for version in versions] == room
    assert users_that_fit(original, 96) == users_at(program, 96) < max(room)
    assert not min(room)  # some version does not fit
