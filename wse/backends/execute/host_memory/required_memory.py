"""Memory of the host that the execution of a Program needs, known before it is allocated."""

from __future__ import annotations

from collections.abc import Collection

from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.tiles import VALUES_IN_FLIGHT
from wse.program.program import Program
from wse_mappings.cuts.cache_balance import CacheBalance

DIRECTIONS = 4
COUNTER_BYTES = 8
LOGIT_BYTES = 4
IN_FLIGHT_BYTES = 4 * VALUES_IN_FLIGHT


def required_bytes(program: Program, wafers: Collection[int] | None = None) -> int:
    """Return how many bytes of memory an engine needs to execute a Program or some of its wafers.

    The total consists of the SRAM, the word counters of links, the cache counters, the logits on
    the host, and `IN_FLIGHT_BYTES` for weights that are being stored. The last item does not depend
    on the model or the number of threads, but a tensor that can only be decoded as a whole may need
    more. The Program itself and compiled kernels need about another 100 MB.

    Args:
        program: The Program.
        wafers: Wafers of this process; None for all.
    """
    wafer_indices = range(program.wafers) if wafers is None else wafers
    stages = [stage for stage in program.stages if stage.wafer in wafer_indices]
    sram = sum(Arena.host_bytes(s.rect.rows, s.cols, s.sram_base_byte, s.sram_top_byte) for s in stages)
    pes = sum(s.rect.rows * s.cols for s in stages) + len(wafer_indices) * program.wafer_rows * program.wafer_cols
    heights = {stage.rect.rows for stage in program.stages}
    caches = program.batch * sum(CacheBalance.host_bytes(rows, program.context) for rows in heights)
    logits = (program.batch + program.verify_tokens) * program.vocab_size
    return sram + pes * DIRECTIONS * COUNTER_BYTES + caches + logits * LOGIT_BYTES + IN_FLIGHT_BYTES
