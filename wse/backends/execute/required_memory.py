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
    """Bytes of SRAM, counters of words over links, counters of caches and logits at the host, as an engine holds them.

    And those of weights in transit to SRAM, `IN_FLIGHT_BYTES` for any model and however many threads store them,
    but for a tensor that is read whole and has more. Of one that has some ``wafers`` alone, where these are given. The
    program itself and compiled kernels take some 100 MB besides.
    """
    held = range(program.wafers) if wafers is None else wafers
    stages = [stage for stage in program.stages if stage.wafer in held]
    sram = sum(Arena.host_bytes(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte) for s in stages)
    pes = sum(s.rect.rows * s.cols for s in stages) + len(held) * program.wafer_rows * program.wafer_cols
    heights = {stage.rect.rows for stage in program.stages}
    caches = program.batch * sum(CacheBalance.host_bytes(rows, program.context) for rows in heights)
    logits = (program.batch + program.verify_tokens) * program.vocab_size
    return sram + pes * DIRECTIONS * COUNTER_BYTES + caches + logits * LOGIT_BYTES + IN_FLIGHT_BYTES
