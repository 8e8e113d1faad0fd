"""Transfer kernel for long messages along rows that send and receive at the same address.

In SRAM, the same element of neighbouring PEs is contiguous, so a message from one PE to another
would move one element at a time. After transposition, its words are a vector. Values are widened to
float32, and rounded to the element type whenever they are added to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels.codegen.elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels.codegen.functions import word
from wse_kernels.codegen.jit import cgutils, config, helper_function, intrinsic, ir, populate_array, prange, types
from wse_kernels.codegen.vectors import SINGLES, WIDTH, transpose
from wse_kernels.communication._carried_words import carry_words

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
    """Return a pointer to a vector with the words of the PE in column ``col``.

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

    A row contains the elements at one address of a block's PEs, called lanes. Rows beyond the end
    of the range are replaced by the last row of the range.

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


VECTORS_AT_ONCE = 8
"""Maximum number of vectors of a PE's words that are transposed at once."""
NEAR_PES = 384
"""Number of PEs whose vectors fit in the first-level cache, one vector each."""


def along_rows_in_place(view: Any, messages: Any, first: Any, variant: Any, a: Any) -> None:
    """Execute in-place messages along mesh rows: PEs send and receive at the same SRAM address.

    The messages are sums, copies and multicasts of all elements. They are executed on transposed
    words, so that the words of each PE are contiguous. A block has at least WIDTH PEs.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        messages: int32 ``[m, 3]``: source PE, target PE, arrival code (what the target does with
            the words, for example add them).
        first: Index of the first message of each list of messages, and finally the number of
            messages.
        variant: Index of the list that each row executes.
        a: Operands: a[0] first row, a[1] rows, a[2] blocks per row, a[3] address, a[5] elements.
    """
    for row in prange(a[0], a[0] + a[1]):
        base, kind, end, cols = row * a[2], variant[row], a[3] + a[5], a[2] * view.shape[2]
        words = words_of_pes(MAX_COLS)
        vectors = max(1, min(VECTORS_AT_ONCE, NEAR_PES // cols))
        for begin in range(a[3], end, vectors * WIDTH):
            count = min(vectors, (end - begin + WIDTH - 1) // WIDTH)
            for vector in range(count):
                _exchange_words(view, base, a[2], begin + vector * WIDTH, end, words, vector * cols, 1)
            carry_words(words, cols, count, messages, first[kind], first[kind + 1], view)
            for vector in range(count):
                _exchange_words(view, base, a[2], begin + vector * WIDTH, end, words, vector * cols, 0)


@helper_function
def _exchange_words(view: Any, base: int, blocks: int, e: int, end: int, words: Any, place: int, read: int) -> None:
    """Transpose WIDTH elements of all PEs of a mesh row from SRAM into ``words``, or back.

    In ``words``, the elements of a PE are contiguous.

    Args:
        view: SRAM of the region.
        base: First block of the row.
        blocks: Blocks per row.
        e, end: Address of the first element, and the end of the valid elements.
        words: Transposed elements.
        place: Index in ``words`` of the vector of the first PE.
        read: 1 to read from SRAM, 0 to write to SRAM.
    """
    lanes = view.shape[2]
    for block in range(blocks):
        for lane in range(0, lanes, WIDTH):
            at = min(lane, lanes - WIDTH)
            if read:
                read_words(view, base + block, e, end, at, words, place + block * lanes + at)
            else:
                write_words(view, base + block, e, end, at, words, place + block * lanes + at)
