"""How many users' caches fit beside a model at which context.

A user's cache of so many tokens takes ceil(tokens / rows) slots on every PE of a stage. Only the cache is counted: what
more users need besides for activations and buffers of their tokens is compiled when a batch is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.program.program import Program
from wse.report.result import Doc, Result
from wse_mappings.cuts.split import ceil_div

CONTEXTS = (1024, 2048, 4096, 8192, 32_768)


@dataclass(frozen=True, kw_only=True)
class UsersResult(Result):
    """How many users' caches fit with a context."""

    context: Annotated[int, Doc("tokens of each user's KV cache")]
    users: Annotated[int, Doc("users whose caches fit beside what one batch takes")]


def users_result(program: Program, context_limit: int) -> tuple[UsersResult, ...]:
    """For usual contexts, the one asked for and the model's longest, how many users' caches fit."""
    contexts = sorted({*(c for c in CONTEXTS if c < context_limit), program.context, context_limit})
    caches, rows = [(cache, room) for cache, room in program.cache_bytes() if cache], program.stages[0].rect.rows
    slots = ceil_div(program.context, rows) * program.batch

    def users(context: int) -> int:
        return min(max(0, room * slots // (cache * ceil_div(context, rows))) for cache, room in caches)

    return tuple(UsersResult(context=context, users=users(context)) for context in contexts)
