"""Memory use: how many bytes of a PE's SRAM each use takes in each stage of a Program."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.program.program import Program

USES: Final = ("code", "weights", "kv", "activations", "buffers")
"""Uses of SRAM, as ``Buffer.use`` names them."""


def stage_bytes(program: Program, stage: int, sram_bytes: int) -> dict[str, int]:
    """SRAM of one PE of a stage by use, with what is free; shared space counts once, for its largest user.

    Activations and buffers share addresses over time. Each address counts for the use whose buffer reaches it first in
    the order of sizes, so that all uses with ``free`` add up to the SRAM of a PE.
    """
    uses = dict.fromkeys(USES, 0)
    sharing = _stages_in_sram(program, stage)
    buffers = sorted((b for b in program.buffers if b.stage in sharing), key=lambda b: -b.bytes)
    spans = np.array([(b.address, b.address + b.bytes) for b in buffers])
    edges = np.unique(spans)
    lengths, free = np.diff(edges), np.ones(len(edges) - 1, np.bool_)
    for buffer, (first, end) in zip(buffers, np.searchsorted(edges, spans).tolist(), strict=True):
        uses[buffer.use] += int(lengths[first:end] @ free[first:end])
        free[first:end] = False
    used_bytes = program.used_bytes(stage)
    uses["buffers"] += used_bytes - int(lengths @ ~free)  # alignment
    return {**uses, "free": sram_bytes - used_bytes}


def _stages_in_sram(program: Program, stage: int) -> set[int]:
    """Return a stage and those in the same SRAM: all above it, and of those below the fullest."""
    fullest = max(program.stages_below(stage), key=lambda i: program.stages[i].sram_top_byte, default=stage)
    return {stage, fullest, *program.stages_above(stage)}


def fullest_stage(program: Program) -> int:
    """Return the stage whose PEs use the most SRAM."""
    return max(range(len(program.stages)), key=lambda i: program.stages[i].sram_top_byte)
