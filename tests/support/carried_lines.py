"""Messages along lines executed by the oracle, on what a region's PEs store."""

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
    """uint8 ``[rows, cols, bytes]``: the elements of one type as each PE has them."""
    view = arena.view(element_type).reshape(arena.rows, arena.blocks_per_row, -1, arena.lanes)
    by_pe = view.transpose(0, 1, 3, 2).reshape(arena.rows, arena.blocks_per_row * arena.lanes, -1)[:, : arena.cols]
    return np.ascontiguousarray(by_pe).view(np.uint8)


def carry(
    memory: npt.NDArray[np.uint8], element_type: str, transfer: Transfer, messages: LineMessages
) -> npt.NDArray[np.int64]:
    """Carry out messages on PEs' memory; int64 ``[4, rows, cols]``, the words that left each PE."""
    schedule = messages.schedule
    place = messages.first_row, messages.rows, -1, transfer.source, transfer.target, transfer.elements
    operands = np.array([*place, len(schedule.first) > 2, memory.shape[1]], np.int64)
    variant = schedule.variants[messages.round % len(schedule.variants)]
    stretches = message_spans(schedule, transfer.elements, ELEMENT_BYTES[element_type])
    carried = oracle.along_columns if messages.axis == COLUMNS else oracle.along_rows
    return carried(memory, element_type, stretches, schedule.first, variant, operands)
