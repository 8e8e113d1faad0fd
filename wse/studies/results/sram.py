"""``sram`` of a result: the SRAM of the fullest PE by use, and its table; some studies add fields of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from wse.program.memory_use import fullest_stage, stage_bytes
from wse.program.program import Program
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import sram_table
from wse.reports.table import Table
from wse.reports.terminal import WIDEST, count, percent
from wse.studies.results.users import cache_capacity

Use = Literal["code", "weights", "kv", "activations", "buffers", "free"]
"""Uses of SRAM, in the order of the JSON keys."""
BytesByUse = Mapping[Use, int]


@dataclass(frozen=True, kw_only=True)
class SramResult(Result):
    """The fullest PE, and the tokens that caches have room for."""

    bytes_per_pe: Annotated[BytesByUse, Doc("SRAM of the fullest PE by use; adds up to all of it", "B")]
    fullest_pe_fraction: Annotated[float, Doc("SRAM of the fullest PE that is in use")]
    kv_capacity_tokens: Annotated[int, Doc("tokens of each user's KV cache that fit with all SRAM that is free")]
    fits: Annotated[bool, Doc("whether everything fits; false with `--capacity report` alone")]


def sram_result(program: Program, sram_bytes: int) -> SramResult:
    """Return the fullest PE of a Program by use, and the tokens that fit each user's cache with all that is free."""
    uses = use_bytes(program, fullest_stage(program), sram_bytes)
    return SramResult(
        bytes_per_pe=uses,
        fullest_pe_fraction=(sram_bytes - uses["free"]) / sram_bytes,
        kv_capacity_tokens=kv_capacity_tokens(program),
        fits=program.fits,
    )


def fullest_table(sram: SramResult, batch: int, *, width: int = WIDEST) -> Table:
    """SRAM of the fullest PE by use; beside the title the share in use, and the tokens of cache with room."""
    users = f" for each of {batch} users" if batch > 1 else ""
    tokens = count(sram.kv_capacity_tokens)
    note = f"{percent(sram.fullest_pe_fraction)} in use; room for {tokens} tokens of KV cache{users}"
    return sram_table(sram.bytes_per_pe, title="SRAM of the fullest PE", note=note, width=width)


def use_bytes(program: Program, stage: int, sram_bytes: int) -> BytesByUse:
    """SRAM of a PE of a stage by use."""
    return stage_bytes(program, stage, sram_bytes)  # type: ignore[return-value]


def kv_capacity_tokens(program: Program) -> int:
    """Return the tokens of each user's KV cache that fit; the context where no stage has a cache."""
    if not any(cache for cache, _ in program.cache_bytes()):
        return program.context
    return cache_capacity(program, program.context).tokens // program.batch
