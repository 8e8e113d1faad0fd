"""Values of a kernel's own, one a lane of a block, between a loop over lanes that makes them and one that uses them.

They are in memory that nothing else points at, so that both loops vectorise where a kernel's output is in the place of
what it reads, and where the compiler cannot see that views of SRAM do not overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import cgutils, config, intrinsic, ir, populate_array, types

__all__ = ["MOST_LANES", "lane_values"]

MOST_LANES = 128
"""The most lanes that a block has."""


@intrinsic
def _lane_values_compiled(typing_context: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bytes_each = ir.Constant(ir.IntType(64), 4)
        array = context.make_array(signature.return_type)(context, builder)
        data = cgutils.alloca_once(builder, ir.FloatType(), size=ir.Constant(ir.IntType(64), MOST_LANES))
        populate_array(array, data=data, shape=[args[0]], strides=[bytes_each], itemsize=bytes_each, meminfo=None)
        return array._getvalue()

    return types.Array(types.float32, 1, "C")(types.int64), generate


def _lane_values(lanes: int) -> Any:
    return np.empty(lanes, np.float32)


lane_values: Any = _lane_values if config.DISABLE_JIT else _lane_values_compiled
"""``lane_values(lanes)``: float32 ``[lanes]``, at most MOST_LANES, on the stack and not set to anything.

Every place in a kernel's text that asks for them has its own, which all blocks take in turn.
"""
