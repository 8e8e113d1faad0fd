"""How many users' caches fit beside a model at which context.

A user's cache of so many tokens takes ceil(tokens / rows) slots on every PE of a stage. Only the cache is counted: what
more users need besides for activations and buffers of their tokens is compiled when a batch is asked for.
"""

from __future__ import annotations

from collections import Counter

from wse.program import Program
from wse.studies.facts import Report
from wse_mappings.split import ceil_div

CONTEXTS = (1024, 2048, 4096, 8192, 32_768)


def user_facts(program: Program, sram_bytes: int, context_limit: int) -> list[Report]:
    """``sram.users``: for usual contexts, the one asked for and the model's longest, how many users' caches fit."""
    contexts = sorted({*(c for c in CONTEXTS if c < context_limit), program.context, context_limit})
    held = Counter[int]()  # bytes of the cache on a PE, by stage
    for buffer in program.buffers:
        held[buffer.stage] += buffer.bytes if buffer.use == "kv" else 0

    def users(context: int) -> int:
        return min(_users(program, stage, held[stage], sram_bytes, context) for stage in held if held[stage])

    return [{"context": context, "users": users(context)} for context in contexts]


def _users(program: Program, stage: int, held: int, sram_bytes: int, context: int) -> int:
    """Users whose caches of ``context`` tokens fit a stage, with what its own caches take and what is free."""
    placed = program.stages[stage]
    slots = ceil_div(program.context, placed.rect.rows) * program.batch
    room = held + sram_bytes - program.used_bytes(stage)
    return max(0, room * slots // (held * ceil_div(context, placed.rect.rows)))
