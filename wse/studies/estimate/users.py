"""How many users' caches fit beside a model at which context.

A user's cache of so many tokens takes ceil(tokens / rows) slots on every PE of a stage. Only the cache is counted: what
more users need besides for activations and buffers of their tokens is compiled when a batch is asked for.
"""

from __future__ import annotations

from wse.program.program import Program
from wse.report.as_json import Report
from wse_mappings.cuts.split import ceil_div

CONTEXTS = (1024, 2048, 4096, 8192, 32_768)


def user_facts(program: Program, context_limit: int) -> list[Report]:
    """``sram.users``: for usual contexts, the one asked for and the model's longest, how many users' caches fit."""
    contexts = sorted({*(c for c in CONTEXTS if c < context_limit), program.context, context_limit})
    caches, rows = [(held, room) for held, room in program.cache_bytes() if held], program.stages[0].rect.rows
    slots = ceil_div(program.context, rows) * program.batch

    def users(context: int) -> int:
        return min(max(0, room * slots // (held * ceil_div(context, rows))) for held, room in caches)

    return [{"context": context, "users": users(context)} for context in contexts]
