"""Tests of the number of users whose KV caches fit, against a count of caches placed one by one."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session import SOFTWARE, wafer
from tiny_model import linear_spec, tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.studies.results.sram import CacheCapacity, cache_capacity, max_states, users_at

OPTIONS = Options(mapping="pipeline", wafers=1, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=20)


def program_of(spec: ModelSpec | None = None, **options: Any) -> Program:
    """Compile a model, by default one of four layers, for PEs with 1 MiB of SRAM, more than it needs."""
    machine = replace(wafer(12, 10), sram_bytes_per_pe=1 << 20)
    return compile_choice(spec or tiny_spec(layers=4), machine, SOFTWARE, replace(OPTIONS, **options), CHOICE)


def counted_users(program: Program, context: int) -> int:
    """Return the number of users that fit on every stage, counted by adding one KV cache after another.

    Args:
        program: A compiled Program with room for at least its own batch.
        context: Tokens in the cache of each user.
    """
    counts = []
    for index, stage in enumerate(program.stages):
        cache, state = (
            sum(buffer.bytes for buffer in program.buffers if buffer.stage == index and buffer.use == use)
            for use in ("kv", "state")
        )
        if not cache + state:
            continue
        slots_of_user = -(-program.context // stage.rect.rows)  # tokens are distributed over the rows
        slot_bytes = cache / (slots_of_user * program.batch)
        state_bytes = state / program.batch
        free = cache + state + program.sram_bytes_per_pe - program.used_bytes(index)
        users = 0
        while (users + 1) * (-(-context // stage.rect.rows) * slot_bytes + state_bytes) <= free:
            users += 1
        counts.append(users)
    return min(counts)


PROGRAMS = {
    "pipeline": {},
    "two users per pass": {"prompt_tokens": (9, 5)},
    "two wafers": {"wafers": 2},
    "one region": {"mapping": "region"},
    "states": {"spec": linear_spec(), "prompt_tokens": (9, 5)},
    "states and caches in a region": {"spec": linear_spec(), "mapping": "region"},
}


@pytest.mark.parametrize("options", PROGRAMS.values(), ids=PROGRAMS)
def test_users_equal_the_count_of_caches_one_by_one(options: dict[str, Any]) -> None:
    base = program_of(**options)
    top = max(base.used_bytes(stage) for stage in range(len(base.stages)))
    found = set()
    for free in (0, 100, 777, 5_000):
        program = replace(base, sram_bytes_per_pe=top + free)
        for context in (1, 11, 12, 13, 24, 60, 200):
            users = users_at(program, context)
            assert users == counted_users(program, context)
            found.add(users)
    assert len(found) > 8
    assert users_at(replace(base, sram_bytes_per_pe=top), base.context) >= base.batch


@pytest.mark.parametrize("mapping", ["pipeline", "region"])
def test_states_limit_the_users_if_caches_are_short(mapping: str) -> None:
    """With one token per user, nearly all memory is for states, in a region with or without caches."""
    program = program_of(linear_spec(), mapping=mapping, prompt_tokens=(9, 5))
    states = max_states(program)
    assert states is not None
    assert 0.5 * states <= users_at(program, 1) <= states
    assert max_states(program_of()) is None


def test_program_that_does_not_fit_has_room_for_no_users() -> None:
    base = program_of()
    top = max(base.used_bytes(stage) for stage in range(len(base.stages)))
    cache = max(kv for kv, _, _ in base.user_bytes())
    small = replace(base, sram_bytes_per_pe=top - 2 * cache)
    assert cache_capacity(small, 60).tokens == users_at(small, 60) == 0


@given(tokens=st.integers(0, 500), block=st.integers(1, 20), context=st.integers(1, 100))
def test_cache_occupies_whole_blocks(tokens: int, block: int, context: int) -> None:
    users = CacheCapacity(room_bytes=tokens, kv_bytes=1, block_tokens=block).users(context)
    blocks = -(-context // block)
    assert users * blocks <= tokens < (users + 1) * blocks
