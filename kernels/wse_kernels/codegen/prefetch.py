"""Prefetching of the operands of the next block while a block is being computed.

The operands of a block are a few short segments of memory, far from those of the block before,
where no hardware prefetcher looks for them. The operands of a kernel may therefore be followed by
these segments, as pairs (first byte within a block, number of bytes).
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels.codegen.functions import WORD, internal_function, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, types
from wse_kernels.codegen.vectors import CACHE_LINE_BYTES, fetch

OPERAND_WORDS: Final = 25
"""Number of operand words of a kernel, before the segments."""
BLOCKS_AHEAD: Final = 1
"""Distance from the block being computed to the block whose segments are prefetched."""


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
            builder.module, "wse_fetch_ahead", kinds, 1, _fetch_segments, no_alias=False, inlined=False
        )
        builder.call(function, [pointer, operands.data, length])
        return context.get_dummy_value()

    return types.void(view, a, types.int64), generate


def _fetch_segments(builder: Any, block: Any, operands: Any, length: Any) -> None:
    """Generate code that prefetches the memory segments listed after a kernel's operands.

    Args:
        builder: LLVM builder.
        block: Pointer to the first byte of the block of PEs to prefetch.
        operands, length: Pointer to the operand array, and its length. Starting at word
            OPERAND_WORDS, it contains the first byte and the size in bytes of each segment.
    """
    with cgutils.for_range_slice(builder, word(OPERAND_WORDS), length, word(2), intp=WORD) as (at, _):
        first, size = (builder.load(builder.gep(operands, [builder.add(at, word(i))])) for i in (0, 1))
        end = builder.add(first, size)
        with cgutils.for_range_slice(builder, first, end, word(CACHE_LINE_BYTES), intp=WORD) as (offset, _):
            fetch(builder, block, offset)


fetch_ahead: Any = (lambda view, a, block: None) if config.DISABLE_JIT else _fetch_compiled
"""``fetch_ahead(view, a, block)``: prefetch the segments of the next block into the L2 cache."""
