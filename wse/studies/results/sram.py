"""Result field ``sram``: SRAM of the fullest PE by use, with a table; number of users that fit.

Some studies add their own fields to `SramResult`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from wse.program.memory_use import fullest_stage, stage_bytes
from wse.program.program import Program
from wse.reports.number_text import count, percent
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import FULLEST_PE, sram_table
from wse.reports.table import Table
from wse.reports.terminal import WIDEST
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.rounding import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCapacity:
    """Memory for KV caches and recurrent states on the stage that limits the number of users.

    A stage is a part of the model, stored on one region of PEs. The tokens of a cache are
    distributed across its PE rows. Memory is allocated in blocks of one token per row, so a cache
    of n tokens needs ceil(n / block_tokens) blocks. Users share the whole blocks of a common
    prefix.

    Attributes:
        room_bytes: Bytes on a PE that are available for caches and states.
        kv_bytes: Bytes on a PE for the caches of ``users_of_pass`` users with ``blocks`` blocks
            each.
        state_bytes: Bytes on a PE for the states of these users.
        users_of_pass: Number of users whose tokens are decoded in one pass.
        blocks: Number of blocks of a cache for the context of the Program.
        block_tokens: Number of tokens per block, which equals the stage's row count.
        prefix_tokens: Number of tokens at the start of every prompt that all users share.
        max_users: Maximum number of users whose states fit on stages that have states but no
            caches; None if there is no such stage.
    """

    room_bytes: int
    kv_bytes: int
    state_bytes: int = 0
    users_of_pass: int = 1
    blocks: int = 1
    block_tokens: int
    prefix_tokens: int = 0
    max_users: int | None = None

    @property
    def tokens(self) -> int:
        """Maximum total number of tokens in the KV caches of all users, if there are no states."""
        return self.room_bytes * self.blocks * self.users_of_pass // self.kv_bytes * self.block_tokens

    @property
    def state_tokens(self) -> int:
        """Space of one user's state, as a number of tokens whose KV cache needs as much space."""
        return ceil_div(self.state_bytes * self.blocks * self.block_tokens, self.kv_bytes)

    def users(self, context: int) -> int:
        """Return how many users fit if each of them has a KV cache of ``context`` tokens."""
        shared_blocks = CacheBalance.shared_slots(self.prefix_tokens, context, self.block_tokens)
        own_blocks = ceil_div(context, self.block_tokens) - shared_blocks
        free_bytes = self.room_bytes * self.blocks * self.users_of_pass - shared_blocks * self.kv_bytes
        users = free_bytes // (own_blocks * self.kv_bytes + self.blocks * self.state_bytes)
        return users if self.max_users is None else min(users, self.max_users)


def cache_capacity(program: Program, context: int) -> CacheCapacity:
    """Return the memory for KV caches and states on the stage that limits the number of users.

    It is the SRAM that weights and the buffers of a pass leave free.

    Args:
        program: The compiled model. A stage without a cache or state does not limit the number of
            users.
        context: Number of tokens in each cache. Which stage limits the number of users may depend
            on it.
    """
    by_stage = program.user_bytes()
    limits = [room * program.batch // state for kv, state, room in by_stage if state and not kv]
    capacities = [
        CacheCapacity(
            room_bytes=room,
            kv_bytes=kv,
            state_bytes=state,
            users_of_pass=program.batch,
            blocks=slots,
            block_tokens=stage.rect.rows,
            prefix_tokens=program.prefix_tokens,
            max_users=min(limits, default=None),
        )
        for stage, slots, (kv, state, room) in zip(
            program.stages, program.cache_slots(program.context), by_stage, strict=True
        )
        if kv
    ]
    return min(capacities, key=lambda capacity: (capacity.users(context), capacity.tokens))


def max_states(program: Program) -> int | None:
    """Return how many users' states fit if there are no KV caches; None if no stage has states."""
    return min((room * program.batch // state for _, state, room in program.user_bytes() if state), default=None)


def users_at(program: Program, context: int) -> int:
    """Return the number of users whose KV caches fit in SRAM alongside the weights and buffers.

    Args:
        program: The compiled model.
        context: Number of tokens in each user's cache.
    """
    return cache_capacity(program, context).users(context)


Use = Literal["code", "weights", "kv", "state", "activations", "buffers", "free"]
"""Uses of SRAM, in JSON key order. Only models with linear attention have ``state``."""
BytesByUse = Mapping[Use, int]


class SramResult(Result):
    """SRAM use of the fullest PE, and the KV-cache capacity per user in tokens."""

    bytes_per_pe: Annotated[BytesByUse, Doc("bytes of each use on the fullest PE, including free bytes", "B")]
    fullest_pe_fraction: Annotated[float, Doc("fraction of the fullest PE's SRAM that is in use")]
    kv_capacity_tokens: Annotated[
        int, Doc("tokens that fit in KV caches with all free SRAM, per user of a pass; none longer than the context")
    ]
    fits: Annotated[bool, Doc("whether the model fits; can be false only with `--capacity report`")]


def sram_result(program: Program, sram_bytes: int) -> SramResult:
    """Return how the SRAM of the fullest PE is used, and how many tokens its KV caches can hold.

    Args:
        program: The compiled model.
        sram_bytes: SRAM size of a PE in bytes.
    """
    uses = use_bytes(program, fullest_stage(program), sram_bytes)
    return SramResult(
        bytes_per_pe=uses,
        fullest_pe_fraction=(sram_bytes - uses["free"]) / sram_bytes,
        kv_capacity_tokens=kv_capacity_tokens(program),
        fits=program.fits,
    )


def fullest_table(sram: SramResult, batch: int, context: int, *, width: int = WIDEST) -> Table:
    """Build the table of SRAM use on the fullest PE, broken down by use, such as weights.

    Args:
        sram: SRAM use to show.
        batch: Number of users decoded in one pass.
        context: Number of tokens for which each user's KV cache has memory.
        width: Width of the terminal in characters.
    """
    caches = f"{cache_text(sram, batch, context)}; {capacity_text(sram, batch, context)}"
    note = f"{percent(sram.fullest_pe_fraction)} in use; {caches}"
    return sram_table(sram.bytes_per_pe, title=FULLEST_PE, note=note, width=width)


def cache_text(sram: SramResult, batch: int, context: int) -> str:
    """Describe the memory reserved for KV caches, and say if the fullest PE stores no part of it."""
    tokens = f"for {count(context)} tokens"
    caches = f"KV cache {tokens}" if batch == 1 else f"{batch:,} KV caches {tokens} each"
    return caches if sram.bytes_per_pe.get("kv", 0) else f"{caches}, none of it on this PE"


def capacity_text(sram: SramResult, batch: int, context: int, place: str = "in this layout") -> str:
    """Return a phrase with the KV-cache capacity in tokens, of all users together.

    Args:
        sram: SRAM use, with the capacity per user.
        batch: Number of users decoded in one pass.
        context: Maximum number of tokens in a KV cache, for which the other buffers are large enough.
        place: Phrase that names the location, such as ``on each replica``.
    """
    tokens = f"{count(batch * sram.kv_capacity_tokens)} tokens"
    room = f"room for KV caches of {tokens} in total {place}, including free SRAM"
    return f"{room}, for contexts up to {count(context)}; a larger --context may lead to a layout with more room"


def use_bytes(program: Program, stage: int, sram_bytes: int) -> BytesByUse:
    """Return the SRAM use in bytes on a PE of a pipeline stage, keyed by use, such as weights.

    Args:
        program: The compiled model.
        stage: Index of the stage.
        sram_bytes: SRAM size of a PE in bytes. The unused rest is counted as ``free``.
    """
    uses = stage_bytes(program, stage, sram_bytes)
    has_state = any(buffer.use == "state" for buffer in program.buffers)
    return {use: size for use, size in uses.items() if use != "state" or has_state}  # type: ignore[misc]


def kv_capacity_tokens(program: Program) -> int:
    """Return how many tokens each user's KV cache could store if it used all free SRAM.

    If no stage has a KV cache, this is the context length of the Program.
    """
    if not any(user_bytes.kv for user_bytes in program.user_bytes()):
        return program.context
    capacity = cache_capacity(program, program.context)
    return max(0, capacity.tokens // program.batch - capacity.state_tokens)


def streams_in_cache(program: Program) -> int:
    """Return the maximum number of batches whose KV caches and states fit in SRAM at the same time.

    A batch has ``program.batch`` users. The result is 1 if there are neither caches nor states.
    """
    return min((room // (kv + state) for kv, state, room in program.user_bytes() if kv + state), default=1)
