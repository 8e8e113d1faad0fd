"""Values of a kernel's own, one a lane of a block, between a loop over lanes that makes them and one that uses them.

They are in memory that nothing else points at, so that both loops vectorise where a kernel's output is in the place of
what it reads, and where the compiler cannot see that views of SRAM do not overlap. A choice of lanes has a bit a lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._functions import word
from wse_kernels._jit import cgutils, config, helper_function, intrinsic, populate_array, types
from wse_kernels._vectors import WIDTH

__all__ = ["MOST_LANES", "MOST_VECTORS", "choose_lanes", "lane_choice", "lane_values", "lanes_in"]

MOST_LANES = 128
"""The most lanes that a block has."""
MOST_VECTORS = MOST_LANES // WIDTH + 1
"""The most vectors of a block's lanes, the last one not whole."""


@intrinsic
def _lane_values_compiled(typing_context: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _array_on_stack(context, builder, signature.return_type, MOST_LANES, args[0])

    return types.Array(types.float32, 1, "C")(types.int64), generate


@intrinsic
def _lane_choice_compiled(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _array_on_stack(context, builder, signature.return_type, MOST_VECTORS, word(MOST_VECTORS))

    return types.Array(types.uint16, 1, "C")(), generate


def _array_on_stack(context: Any, builder: Any, kind: Any, most: int, length: Any) -> Any:
    """Return an array on the stack with room for ``most`` elements, of which it has ``length``."""
    array, element = context.make_array(kind)(context, builder), context.get_data_type(kind.dtype)
    data, bytes_each = cgutils.alloca_once(builder, element, size=word(most)), word(kind.dtype.bitwidth // 8)
    populate_array(array, data=data, shape=[length], strides=[bytes_each], itemsize=bytes_each, meminfo=None)
    return array._getvalue()


def _lane_values(lanes: int) -> Any:
    return np.empty(lanes, np.float32)


def _lane_choice() -> Any:
    return np.empty(MOST_VECTORS, np.uint16)


@helper_function
def choose_lanes(choice: Any, values: Any, lane: int, taken: Any) -> None:
    """Choose the lanes from ``lane`` on that have its value, and give these the value ``taken`` instead."""
    value = values[lane]
    for vector in range(len(choice)):
        choice[vector] = 0
    for other in range(lane, len(values)):
        if values[other] == value:
            choice[other // WIDTH] |= 1 << other % WIDTH
            values[other] = taken


def lanes_in(choice: Any, lanes: int) -> list[int]:
    """Return the chosen ones of ``lanes`` lanes; all of them where ``choice`` is None."""
    return [lane for lane in range(lanes) if choice is None or int(choice[lane // WIDTH]) >> lane % WIDTH & 1]


lane_values: Any = _lane_values if config.DISABLE_JIT else _lane_values_compiled
"""``lane_values(lanes)``: float32 ``[lanes]``, at most MOST_LANES, on the stack and not set to anything.

Every place in a kernel's text that asks for them has its own, which all blocks take in turn.
"""

lane_choice: Any = _lane_choice if config.DISABLE_JIT else _lane_choice_compiled
"""``lane_choice()``: uint16 ``[MOST_VECTORS]``, a bit a lane of each vector, on the stack and not set to anything."""
