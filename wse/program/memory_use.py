"""Memory use: the SRAM bytes of a PE by purpose, for each stage of a Program."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.program.program import Program

USES: Final = ("code", "weights", "kv", "state", "activations", "buffers")
"""Values of ``Buffer.use``: what SRAM is used for."""


def stage_bytes(program: Program, stage: int, sram_bytes: int) -> dict[str, int]:
    """Return how many bytes of SRAM a PE of a stage uses for each purpose.

    Activations and buffers that are live at different times share addresses. Each address is
    counted once, for the largest buffer that contains it.

    Args:
        program: The Program.
        stage: Index of the stage (a region of PEs with its layers) to which the PE belongs.
        sram_bytes: Size of a PE's SRAM in bytes.

    Returns:
        The keys are purposes, such as ``weights``, and ``free`` for unused bytes. The values add up
        to the SRAM size of a PE.
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
    """Return the stages whose buffers count as memory use of a stage's PEs.

    A stage is a part of the model, stored on one region of PEs. Several stages may be stored on the
    same PEs, at different addresses. The result contains:

    - the stage itself
    - all stages at higher addresses
    - among the stages at lower addresses, only the one that ends at the highest address
    """
    fullest_below = max(program.stages_below(stage), key=lambda i: program.stages[i].sram_top_byte, default=stage)
    return {stage, fullest_below, *program.stages_above(stage)}


def fullest_stage(program: Program) -> int:
    """Return the index of the stage whose PEs use the most SRAM.

    A stage is a part of the model, stored on one region of PEs.
    """
    return max(range(len(program.stages)), key=lambda i: program.stages[i].sram_top_byte)
