"""How many users' caches fit beside a model at which context.

A user's cache of so many tokens takes ceil(tokens / rows) slots on every PE of a stage. Only the cache is counted: what
more users need besides for activations and buffers of their tokens is compiled when a batch is asked for.
"""

from __future__ import annotations

from wse.program import Program
from wse.studies.facts import Report
from wse_mappings.split import ceil_div

CONTEXTS = (1024, 2048, 4096, 8192, 32_768)


def user_facts(program: Program, sram_bytes: int, context_limit: int) -> list[Report]:
    """``sram.users``: for usual contexts, the one asked for and the model's longest, how many users' caches fit."""
    contexts = sorted({*(c for c in CONTEXTS if c < context_limit), program.context, context_limit})
    return [{"context": context, "users": users_at(program, sram_bytes, context)} for context in contexts]


def users_at(program: Program, sram_bytes: int, context: int) -> int:
    """Users whose caches of ``context`` tokens fit with what the program's own caches take and what is free."""
    return min(
        _users(program, stage, sram_bytes, context) for stage in range(len(program.stages)) if _held(program, stage)
    )


def _users(program: Program, stage: int, sram_bytes: int, context: int) -> int:
    """Of one stage, whose PEs hold so many bytes a slot and user."""
    placed, held = program.stages[stage], _held(program, stage)
    slots = ceil_div(program.context, placed.rect.rows) * program.batch
    room = held + sram_bytes - placed.sram_top_byte
    return max(0, room * slots // (held * ceil_div(context, placed.rect.rows)))


def _held(program: Program, stage: int) -> int:
    """Bytes of the cache on a PE of a stage; none where it has no layers."""
    return sum(b.bytes for b in program.buffers if b.stage == stage and b.use == "kv")
