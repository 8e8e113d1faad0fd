"""Words of the PEs of a mesh row, transposed so that the words of one PE are contiguous.

In SRAM, the same element of neighbouring PEs is contiguous, so a message from one PE to another
would move one element at a time. After transposition, its words are a vector. Values are widened to
float32, and rounded to the element type whenever they are added to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels.codegen.functions import word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, populate_array, types
from wse_kernels.codegen.vectors import SINGLES, WIDTH, transpose

__all__ = ["MAX_COLS", "read_words", "words_of_pes", "write_words"]

MAX_COLS = 1024
"""Maximum number of PEs of a mesh row."""

FOUR_BYTES = 4


@intrinsic
def _words_of_pes_compiled(typing_context: Any, cols: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        vectors = cgutils.alloca_once(builder, SINGLES, size=word(MAX_COLS))  # each has a cache line of its own
        data = builder.bitcast(vectors, ir.FloatType().as_pointer())
        width, bytes_each = word(WIDTH), word(FOUR_BYTES)
        strides = [word(WIDTH * FOUR_BYTES), bytes_each]
        shape = [args[0], width]
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=bytes_each, meminfo=None)
        return array._getvalue()

    return types.Array(types.float32, 2, "C")(types.int64), generate


def _place(context: Any, builder: Any, words: Any, value: Any, col: Any) -> Any:
    """Return a pointer to the words of the PE in column ``col``, of vector type.

    Args:
        context, builder: Numba target context and LLVM builder.
        words, value: Numba type and LLVM value of the array ``[PE, word]``.
        col: Column of the PE.
    """
    array = context.make_array(words)(context, builder, value)
    at = builder.gep(array.data, [builder.mul(col, word(WIDTH))])
    return builder.bitcast(at, SINGLES.as_pointer())


def _rows(context: Any, builder: Any, view: Any, args: Any) -> list[Any]:
    """Return LLVM pointers to WIDTH consecutive rows of an array ``[block, address, lane]``.

    Rows beyond the end of the range are replaced by the last row of the range.

    Args:
        context, builder: Numba target context and LLVM builder.
        view: Numba type of the array.
        args: LLVM values of the array, the block, the first address, the end of the range of
            addresses, and the first lane.
    """
    first, lanes = row_pointer(context, builder, view, args[0], args[1], word(0))
    kind = ir.VectorType(first.type.pointee, WIDTH).as_pointer()
    last, pointers = builder.sub(args[3], word(1)), []
    for i in range(WIDTH):
        row = builder.add(args[2], word(i))
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        pointers.append(builder.bitcast(builder.gep(first, [builder.add(builder.mul(row, lanes), args[4])]), kind))
    return pointers


@intrinsic
def _read_compiled(
    typing_context: Any, view: Any, block: Any, e: Any, end: Any, lane: Any, words: Any, col: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bytes_each = view.dtype.bitwidth // 8
        pointers = _rows(context, builder, view, args)
        rows = [widen_ir(builder, view.dtype, builder.load(pointer, align=bytes_each)) for pointer in pointers]
        place = _place(context, builder, words, args[5], args[6])
        for i, vector in enumerate(transpose(builder, rows)):
            builder.store(vector, builder.gep(place, [word(i)]))
        return context.get_dummy_value()

    return types.void(view, *(types.int64,) * 4, words, types.int64), generate


@intrinsic
def _write_compiled(
    typing_context: Any, view: Any, block: Any, e: Any, end: Any, lane: Any, words: Any, col: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, words, args[5], args[6])
        vectors = [builder.load(builder.gep(place, [word(i)])) for i in range(WIDTH)]
        pointers = _rows(context, builder, view, args)
        for pointer, vector in zip(pointers, transpose(builder, vectors), strict=True):
            builder.store(narrow_ir(builder, view.dtype, vector), pointer, align=view.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(view, *(types.int64,) * 4, words, types.int64), generate


def _words_of_pes(cols: int) -> Any:
    return np.empty((cols, WIDTH), np.float32)


def _read(view: Any, block: int, e: int, end: int, lane: int, words: Any, col: int) -> None:
    for i in range(WIDTH):
        for j in range(WIDTH):
            words[col + j, i] = widen(view[block, min(e + i, end - 1), lane + j])


def _write(view: Any, block: int, e: int, end: int, lane: int, words: Any, col: int) -> None:
    for i in range(WIDTH):
        for j in range(WIDTH):
            at = block, min(e + i, end - 1), lane + j
            view[at] = narrow(words[col + j, i], view[at])


words_of_pes: Any = _words_of_pes if config.DISABLE_JIT else _words_of_pes_compiled
"""``words_of_pes(cols)``: uninitialised float32 stack array ``[cols, WIDTH]``.

There are at most MAX_COLS columns.
"""

read_words: Any = _read if config.DISABLE_JIT else _read_compiled
"""``read_words(view, block, e, end, lane, words, col)``: transpose words of PEs.

words[col + j, i] = view[block, e + i, lane + j], where i and j are below WIDTH. Elements at or
beyond ``end`` are replaced by the last element before it. All these copies change in the same way,
so writing them back is harmless.
"""

write_words: Any = _write if config.DISABLE_JIT else _write_compiled
"""``write_words(view, block, e, end, lane, words, col)``: undo `read_words`."""
