"""Operands of the blocks that come next, fetched while a block is worked on.

A block's operands are few short stretches, far from those of the block before, where no processor looks for them. The
words of a kernel's operands may be followed by stretches, pairs of (first byte in a block, bytes).
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels._jit import cgutils, config, intrinsic, ir, types
from wse_kernels._vectors import fetch, word

__all__ = ["OPERAND_WORDS", "fetch_ahead"]

OPERAND_WORDS: Final = 25
"""Words of a kernel's operands, before the stretches."""
BLOCKS_AHEAD: Final = 1
"""How many blocks further on the stretches are those of."""
CACHE_LINE_BYTES: Final = 64


@intrinsic
def _fetch_compiled(typing_context: Any, view: Any, a: Any, block: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(view)(context, builder, args[0])
        operands = context.make_array(a)(context, builder, args[1])
        _, height, lanes = cgutils.unpack_tuple(builder, array.shape)
        (length,) = cgutils.unpack_tuple(builder, operands.shape)
        name = "wse_fetch_ahead"
        function = builder.module.globals.get(name) or _function(builder.module, name)
        block_bytes = builder.mul(builder.mul(height, lanes), word(view.dtype.bitwidth // 8))
        first = builder.mul(builder.add(args[2], word(BLOCKS_AHEAD)), block_bytes)
        pointer = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [first])
        builder.call(function, [pointer, operands.data, length])
        return context.get_dummy_value()

    return types.void(view, a, types.int64), generate


def _function(module: Any, name: str) -> Any:
    """The function of a block's first byte, operands and their number."""
    count = ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), count.as_pointer(), count])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    block, operands, length = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    with cgutils.for_range_slice(builder, word(OPERAND_WORDS), length, word(2), intp=count) as (at, _):
        first, size = (builder.load(builder.gep(operands, [builder.add(at, word(i))])) for i in (0, 1))
        end = builder.add(first, size)
        with cgutils.for_range_slice(builder, first, end, word(CACHE_LINE_BYTES), intp=count) as (ahead, _):
            fetch(builder, block, ahead)
    builder.ret_void()
    return function


fetch_ahead: Any = (lambda view, a, block: None) if config.DISABLE_JIT else _fetch_compiled
"""``fetch_ahead(view, a, block)``: have the stretches of the next block fetched into the second-level cache."""
