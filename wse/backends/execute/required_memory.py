"""The memory of the host that the execution of a Program takes, known before any of it is allocated."""

from __future__ import annotations

from collections.abc import Collection

from wse.backends.execute.arena import Arena
from wse.backends.execute.tiles import VALUES_IN_FLIGHT
from wse.program.program import Program
from wse_mappings.cuts.cache_balance import CacheBalance

DIRECTIONS = 4
COUNTER_BYTES = 8
LOGIT_BYTES = 4
IN_FLIGHT_BYTES = 4 * VALUES_IN_FLIGHT


def required_bytes(program: Program, wafers: Collection[int] | None = None) -> int:
    """Return the bytes of memory that an engine needs for a Program, or for some ``wafers`` of it.

    They are those of the SRAM, of the words on links, of cache counters and of logits at the host, and
    `IN_FLIGHT_BYTES` for weights on their way to SRAM, for any model and number of threads. A tensor that is read whole
    may need more. The program itself and compiled kernels need another 100 MB or so.
    """
    held = range(program.wafers) if wafers is None else wafers
    stages = [stage for stage in program.stages if stage.wafer in held]
    sram = sum(Arena.host_bytes(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte) for s in stages)
    pes = sum(s.rect.rows * s.cols for s in stages) + len(held) * program.wafer_rows * program.wafer_cols
    heights = {stage.rect.rows for stage in program.stages}
    caches = program.batch * sum(CacheBalance.host_bytes(rows, program.context) for rows in heights)
    logits = (program.batch + program.verify_tokens) * program.vocab_size
    return sram + pes * DIRECTIONS * COUNTER_BYTES + caches + logits * LOGIT_BYTES + IN_FLIGHT_BYTES
