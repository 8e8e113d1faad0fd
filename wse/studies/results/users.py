"""The users whose caches a Program has room for."""

from __future__ import annotations

from wse.program.program import Program


def users_at(program: Program, context: int) -> int:
    """The users whose caches of so many tokens fit beside what one batch takes; a stage without a cache fits any.

    A user's cache takes ceil(tokens / rows) slots on every PE of a stage.
    """
    had, slots = program.cache_slots(program.context), program.cache_slots(context)
    caches = [(stage, *of_stage) for stage, of_stage in enumerate(program.cache_bytes()) if of_stage[0]]
    return min(max(0, room * had[stage] * program.batch // (cache * slots[stage])) for stage, cache, room in caches)
