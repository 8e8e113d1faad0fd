"""Transposition of up to sixteen mesh rows, so that sums along them are computed all at once.

In SRAM, the PEs of a row are neighbours and those of a column are far apart, so a message along a
row touches a single lane of each row. After transposition, an element of a PE and the same element
of the PEs below it form one vector. A chain of sums then proceeds from vector to vector. The order
of every sum stays the same.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse_kernels.codegen.elements import narrow, row_pointer, widen
from wse_kernels.codegen.functions import internal_function, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, populate_array, types
from wse_kernels.codegen.vectors import WIDTH, load_lanes, store_lanes, transpose, whole_mask
from wse_kernels.communication._moved_rows import copies_of, larger_of, sums_of

TRANSPOSED_COLUMNS: Final = 2048
"""Maximum number of elements per row that are transposed at once, over all columns."""


@intrinsic
def _transposed_values_compiled(typing_context: Any, view: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        element = context.get_data_type(view.dtype)
        size, bytes_each = word((TRANSPOSED_COLUMNS + WIDTH) * WIDTH), word(view.dtype.bitwidth // 8)
        data = cgutils.alloca_once(builder, element, size=size)
        populate_array(array, data=data, shape=[size], strides=[bytes_each], itemsize=bytes_each, meminfo=None)
        return array._getvalue()

    return types.Array(view.dtype, 1, "C")(view), generate


def _transposition(compiled: Any) -> Any:
    """Return a numba function that transposes elements between SRAM and a scratch array.

    Args:
        compiled: Function that generates the LLVM instructions for a group of mesh rows:
            `transpose_in_block` copies their elements from SRAM into the scratch array, and
            `transpose_back_block` copies them back.
    """

    @intrinsic
    def transpose_rows(
        typing_context: Any, transposed: Any, at: Any, stride: Any, view: Any, block: Any, per_row: Any, rows: Any,
        e: Any, lane: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values, at, stride, array, block, per_row, rows, e, lane = args
            pointer, lanes = row_pointer(context, builder, view, array, block, e)
            height = cgutils.unpack_tuple(builder, context.make_array(view)(context, builder, array).shape)[1]
            row_stride = builder.mul(builder.mul(per_row, height), lanes)
            place = builder.gep(
                context.make_array(transposed)(context, builder, values).data, [builder.mul(at, word(WIDTH))]
            )
            name, pointers = f"wse_{compiled.__name__}_{view.dtype}", (place.type, pointer.type)
            function = internal_function(builder.module, name, pointers, 4, compiled, no_alias=False)
            first = builder.gep(pointer, [lane])
            steps = builder.mul(stride, word(WIDTH))
            builder.call(function, [place, first, steps, row_stride, rows, builder.sub(lanes, lane)])
            return context.get_dummy_value()

        return types.void(transposed, types.int64, types.int64, view, *(types.int64,) * 5), generate

    return transpose_rows


def transpose_in_block(builder: Any, place: Any, first: Any, step: Any, row_stride: Any, rows: Any, lanes: Any) -> None:
    """Generate code that copies up to 16 rows of 16 elements into columns of a scratch array.

    The code is the body of `transpose_in`. If there are fewer than 16 rows, the first row takes the
    place of the missing rows.

    Args:
        builder: LLVM builder.
        place: Pointer to the first transposed vector.
        first: Pointer to the first row in SRAM.
        step, row_stride: Distances between two transposed vectors and between two rows, in
            elements.
        rows: Number of rows, at most 16.
        lanes: Number of elements that remain in a row. Only the first 16 are copied.
    """
    mask, vectors = whole_mask(builder, lanes), []
    for row in range(WIDTH):
        is_present = builder.icmp_signed("<", word(row), rows)
        offset = builder.select(is_present, builder.mul(row_stride, word(row)), word(0))
        vectors.append(load_lanes(builder, builder.gep(first, [offset]), mask))
    for col, vector in enumerate(transpose(builder, vectors)):
        store_lanes(builder, vector, builder.gep(place, [builder.mul(step, word(col))]), None)


def transpose_back_block(
    builder: Any, place: Any, first: Any, step: Any, row_stride: Any, rows: Any, lanes: Any
) -> None:
    """Generate code that copies columns of a scratch array back to up to 16 rows in SRAM.

    The code is the body of `transpose_back`. If there are fewer than 16 rows, only these are
    stored.

    Args:
        builder: LLVM builder.
        place: Pointer to the first transposed vector.
        first: Pointer to the first row in SRAM.
        step, row_stride: Distances between two transposed vectors and between two rows, in
            elements.
        rows: Number of rows, at most 16.
        lanes: Number of elements that remain in a row. Only the first 16 are copied.
    """
    mask = whole_mask(builder, lanes)
    vectors = [load_lanes(builder, builder.gep(place, [builder.mul(step, word(col))]), None) for col in range(WIDTH)]
    for row, vector in enumerate(transpose(builder, vectors)):
        with builder.if_then(builder.icmp_signed("<", word(row), rows)):
            store_lanes(builder, vector, builder.gep(first, [builder.mul(row_stride, word(row))]), mask)


def _combination(combine: Any) -> Any:
    """Return a numba function that replaces a transposed vector by ``combine(old, new)``.

    The function is used to execute a message, for example to add the words of the sender to those
    of the receiver. ``old`` is the vector of the receiver, and ``new`` is the vector of the sender
    in the same scratch array. ``combine`` generates the LLVM instructions.
    """

    @intrinsic
    def combine_places(typing_context: Any, transposed: Any, to: Any, origin: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(transposed)(context, builder, args[0]).data
            places = [builder.gep(data, [builder.mul(at, word(WIDTH))]) for at in args[1:]]
            old, new = (load_lanes(builder, place, None) for place in places)
            store_lanes(builder, combine(builder, transposed.dtype, old, new), places[0], None)
            return context.get_dummy_value()

        return types.void(transposed, types.int64, types.int64), generate

    return combine_places


def _transposed_values(view: Any) -> Any:
    return np.empty((TRANSPOSED_COLUMNS + WIDTH) * WIDTH, view.dtype)


def _transpose_in(
    transposed: Any, at: int, stride: int, view: Any, block: int, per_row: int, rows: int, e: int, lane: int
) -> None:  # fmt: skip
    for col in range(min(WIDTH, view.shape[2] - lane)):
        for row in range(rows):
            transposed[(at + col * stride) * WIDTH + row] = view[block + row * per_row, e, lane + col]


def _transpose_back(
    transposed: Any, at: int, stride: int, view: Any, block: int, per_row: int, rows: int, e: int, lane: int
) -> None:  # fmt: skip
    for col in range(min(WIDTH, view.shape[2] - lane)):
        for row in range(rows):
            view[block + row * per_row, e, lane + col] = transposed[(at + col * stride) * WIDTH + row]


def _add_transposed(transposed: Any, to: int, origin: int) -> None:
    for row in range(WIDTH):
        old = transposed[to * WIDTH + row]
        transposed[to * WIDTH + row] = narrow(widen(old) + widen(transposed[origin * WIDTH + row]), old)


def _max_transposed(transposed: Any, to: int, origin: int) -> None:
    for row in range(WIDTH):
        old, new = transposed[to * WIDTH + row], transposed[origin * WIDTH + row]
        transposed[to * WIDTH + row] = new if widen(new) > widen(old) else old


def _copy_transposed(transposed: Any, to: int, origin: int) -> None:
    for row in range(WIDTH):
        transposed[to * WIDTH + row] = transposed[origin * WIDTH + row]


_INTERPRETED = bool(config.DISABLE_JIT)

transposed_values: Any = _transposed_values if _INTERPRETED else _transposed_values_compiled
"""``transposed_values(view)``: stack array for TRANSPOSED_COLUMNS elements of sixteen rows."""

transpose_in: Any = _transpose_in if _INTERPRETED else _transposition(transpose_in_block)
"""``transpose_in(transposed, at, stride, view, block, per_row, rows, e, lane)``.

Transpose element e of sixteen lanes. The lanes begin with ``lane``. The rows, at most sixteen,
begin with block ``block`` and are ``per_row`` blocks apart. The vector of the first lane is stored
at place ``at``, and each subsequent one ``stride`` places later. Sixteen vectors are stored even
if the block has fewer lanes.
"""

transpose_back: Any = _transpose_back if _INTERPRETED else _transposition(transpose_back_block)
"""``transpose_back(...)``: copy elements back to where `transpose_in` read them."""

add_transposed: Any = _add_transposed if _INTERPRETED else _combination(sums_of)
"""``add_transposed(transposed, to, origin)``: add the vector at ``origin`` to the one at ``to``."""

max_transposed: Any = _max_transposed if _INTERPRETED else _combination(larger_of)
"""``max_transposed(transposed, to, origin)``: store the elementwise maximum of both at ``to``."""

copy_transposed: Any = _copy_transposed if _INTERPRETED else _combination(copies_of)
"""``copy_transposed(transposed, to, origin)``: copy the vector at ``origin`` to ``to``."""
