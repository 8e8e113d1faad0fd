"""Execution of messages along lines by the oracle, on the memory of a region's PEs."""

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.pattern_tables import message_spans
from wse.backends.execute.host_memory.arena import Arena
from wse.number_formats import ELEMENT_BYTES
from wse.program.steps import COLUMNS
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.transfer import Transfer
from wse_kernels.oracle import transfers as oracle


def memory_of(arena: Arena, element_type: str) -> npt.NDArray[np.uint8]:
    """Return the elements of one type in the memory of each PE, uint8 ``[rows, cols, bytes]``."""
    view = arena.view(element_type).reshape(arena.rows, arena.blocks_per_row, -1, arena.lanes)
    by_pe = view.transpose(0, 1, 3, 2).reshape(arena.rows, arena.blocks_per_row * arena.lanes, -1)[:, : arena.cols]
    return np.ascontiguousarray(by_pe).view(np.uint8)


def carry(
    memory: npt.NDArray[np.uint8], element_type: str, transfer: Transfer, messages: LineMessages
) -> npt.NDArray[np.int64]:
    """Execute messages on the memory of PEs, in place.

    Args:
        memory: uint8 ``[rows, cols, bytes]``, see `memory_of`.
        element_type: Type of the elements.
        transfer: The transfer, with its buffers and its place.
        messages: The messages of its lines.

    Returns:
        The words that left each PE on its four links, int64 ``[4, rows, cols]``.
    """
    schedule = messages.schedule
    region_and_buffers = messages.first_row, messages.rows, -1, transfer.source, transfer.target, transfer.elements
    operands = np.array([*region_and_buffers, len(schedule.first) > 2, memory.shape[1]], np.int64)
    variant = schedule.variants[messages.round % len(schedule.variants)]
    spans = message_spans(schedule, transfer.elements, ELEMENT_BYTES[element_type])
    execute = oracle.along_columns if messages.axis == COLUMNS else oracle.along_rows
    return execute(memory, element_type, spans, schedule.first, variant, operands)
