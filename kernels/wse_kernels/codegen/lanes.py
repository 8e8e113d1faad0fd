"""Temporary values of a kernel, one per lane of a block, and choices of lanes.

The values are in memory that no other pointer refers to, so loops over lanes that write or read
them vectorise. Views of SRAM would prevent that: the output of a kernel may overwrite its input,
and the compiler cannot see that views do not overlap. A choice of lanes has one bit per lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.functions import word
from wse_kernels.codegen.jit import cgutils, config, helper_function, intrinsic, populate_array, types
from wse_kernels.codegen.vectors import CACHE_LINE_BYTES, WIDTH

MAX_LANES = 128
"""Maximum number of lanes of a block."""
MAX_VECTORS = MAX_LANES // WIDTH + 1
"""Maximum number of vectors for the lanes of a block, including an incomplete last one."""


@intrinsic
def _lane_values_compiled(typing_context: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _array_on_stack(context, builder, signature.return_type, MAX_LANES, args[0])

    return types.Array(types.float32, 1, "C")(types.int64), generate


@intrinsic
def _lane_choice_compiled(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _array_on_stack(context, builder, signature.return_type, MAX_VECTORS, word(MAX_VECTORS))

    return types.Array(types.uint16, 1, "C")(), generate


def _array_on_stack(context: Any, builder: Any, kind: Any, capacity: int, length: Any) -> Any:
    """Generate a numba array of ``length`` elements on the stack.

    Args:
        context, builder: Numba target context and LLVM builder.
        kind: Numba type of the array.
        capacity: Number of elements for which memory is reserved.
        length: LLVM value of the array's length, at most ``capacity``.
    """
    array, element = context.make_array(kind)(context, builder), context.get_data_type(kind.dtype)
    data, bytes_each = cgutils.alloca_once(builder, element, size=word(capacity)), word(kind.dtype.bitwidth // 8)
    data.align = CACHE_LINE_BYTES  # so that no vector is in two cache lines
    populate_array(array, data=data, shape=[length], strides=[bytes_each], itemsize=bytes_each, meminfo=None)
    return array._getvalue()


def _lane_values(lanes: int) -> Any:
    return np.empty(lanes, np.float32)


def _lane_choice() -> Any:
    return np.empty(MAX_VECTORS, np.uint16)


@helper_function
def choose_lanes(choice: Any, values: Any, lane: int, done_value: Any) -> None:
    """Select the lanes that have the same value as a given lane, and mark them as done.

    A lane is the position of one PE in a block of neighbouring PEs. Only the given lane and the
    lanes after it are considered.

    Args:
        choice: Bit mask of the selected lanes, overwritten.
        values: One value per lane. The values of the selected lanes are replaced by ``done_value``.
        lane: The given lane.
        done_value: Value that marks a lane as done.
    """
    value = values[lane]
    for vector in range(len(choice)):
        choice[vector] = 0
    for other in range(lane, len(values)):
        if values[other] == value:
            choice[other // WIDTH] |= 1 << other % WIDTH
            values[other] = done_value


def lanes_in(choice: Any, lanes: int) -> list[int]:
    """Convert a bit mask of lanes (PEs of a block) to the indices of the selected lanes.

    Args:
        choice: Bit mask. Each word has the bits of WIDTH lanes. None selects all lanes.
        lanes: Number of lanes.
    """
    return [lane for lane in range(lanes) if choice is None or int(choice[lane // WIDTH]) >> lane % WIDTH & 1]


lane_values: Any = _lane_values if config.DISABLE_JIT else _lane_values_compiled
"""``lane_values(lanes)``: uninitialised float32 array ``[lanes]`` on the stack, at most MAX_LANES.

Each call in the source of a kernel has its own array, which is reused for every block.
"""

lane_choice: Any = _lane_choice if config.DISABLE_JIT else _lane_choice_compiled
"""``lane_choice()``: uninitialised uint16 stack array ``[MAX_VECTORS]``, a bit per lane."""
