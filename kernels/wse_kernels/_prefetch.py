"""Operands of the blocks that come next, fetched while a block is worked on.

A block's operands are few short stretches, far from those of the block before, where no processor looks for them. The
words of a kernel's operands may be followed by stretches, pairs of (first byte in a block, bytes).
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels._functions import WORD, internal_function, word
from wse_kernels._jit import cgutils, config, intrinsic, ir, types
from wse_kernels._vectors import CACHE_LINE_BYTES, fetch

__all__ = ["fetch_ahead"]

OPERAND_WORDS: Final = 25
"""Words of a kernel's operands, before the stretches."""
BLOCKS_AHEAD: Final = 1
"""Blocks from the one that is worked on to the one whose stretches are fetched."""


@intrinsic
def _fetch_compiled(typing_context: Any, view: Any, a: Any, block: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(view)(context, builder, args[0])
        operands = context.make_array(a)(context, builder, args[1])
        _, height, lanes = cgutils.unpack_tuple(builder, array.shape)
        (length,) = cgutils.unpack_tuple(builder, operands.shape)
        block_bytes = builder.mul(builder.mul(height, lanes), word(view.dtype.bitwidth // 8))
        first = builder.mul(builder.add(args[2], word(BLOCKS_AHEAD)), block_bytes)
        pointer = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [first])
        kinds = [pointer.type, operands.data.type]
        function = internal_function(
            builder.module, "wse_fetch_ahead", kinds, 1, _fetch_stretches, apart=False, inlined=False
        )
        builder.call(function, [pointer, operands.data, length])
        return context.get_dummy_value()

    return types.void(view, a, types.int64), generate


def _fetch_stretches(builder: Any, block: Any, operands: Any, length: Any) -> None:
    """Fetch the stretches behind a kernel's operands, of a block's first byte, the operands and their number."""
    with cgutils.for_range_slice(builder, word(OPERAND_WORDS), length, word(2), intp=WORD) as (at, _):
        first, size = (builder.load(builder.gep(operands, [builder.add(at, word(i))])) for i in (0, 1))
        end = builder.add(first, size)
        with cgutils.for_range_slice(builder, first, end, word(CACHE_LINE_BYTES), intp=WORD) as (ahead, _):
            fetch(builder, block, ahead)


fetch_ahead: Any = (lambda view, a, block: None) if config.DISABLE_JIT else _fetch_compiled
"""``fetch_ahead(view, a, block)``: have the stretches of the next block fetched into the second-level cache."""
