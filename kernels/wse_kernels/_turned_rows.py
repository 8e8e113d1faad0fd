"""Elements of sixteen mesh rows turned by a quarter, so that a sum along the rows is taken for all of them at once.

In memory the PEs of a row stand side by side, and those of a column far apart: a message along a row touches one lane
of each. Turned, an element of a PE has those of the PEs below beside it, as one vector, and a chain of sums walks from
vector to vector. Every sum keeps its own order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse_kernels._elements import narrow, row_pointer, widen
from wse_kernels._functions import internal_function, word
from wse_kernels._jit import cgutils, config, intrinsic, populate_array, types
from wse_kernels._moved_rows import copies_of, larger_of, sums_of
from wse_kernels._vectors import WIDTH, load_lanes, store_lanes, transpose, whole_mask

__all__ = [
    "TURNED_COLUMNS",
    "WIDTH",
    "add_turned",
    "copy_turned",
    "take_larger_turned",
    "turn_back",
    "turn_in",
    "turned_values",
]

TURNED_COLUMNS: Final = 2048
"""Elements that are turned at once, each of sixteen rows, at most: those of so many columns."""


@intrinsic
def _turned_values_compiled(typing_context: Any, view: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        element = context.get_data_type(view.dtype)
        size, bytes_each = word((TURNED_COLUMNS + WIDTH) * WIDTH), word(view.dtype.bitwidth // 8)
        data = cgutils.alloca_once(builder, element, size=size)
        populate_array(array, data=data, shape=[size], strides=[bytes_each], itemsize=bytes_each, meminfo=None)
        return array._getvalue()

    return types.Array(view.dtype, 1, "C")(view), generate


def _turn(compiled: Any) -> Any:
    """Return the intrinsic that calls a function of the view's rows, and of the place where they stand turned."""

    @intrinsic
    def turn(
        typing_context: Any, turned: Any, at: Any, stride: Any, view: Any, block: Any, per_row: Any, rows: Any, e: Any,
        lane: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values, at, stride, array, block, per_row, rows, e, lane = args
            pointer, lanes = row_pointer(context, builder, view, array, block, e)
            height = cgutils.unpack_tuple(builder, context.make_array(view)(context, builder, array).shape)[1]
            row_stride = builder.mul(builder.mul(per_row, height), lanes)
            place = builder.gep(
                context.make_array(turned)(context, builder, values).data, [builder.mul(at, word(WIDTH))]
            )
            name, pointers = f"wse_{compiled.__name__}_{view.dtype}", (place.type, pointer.type)
            function = internal_function(builder.module, name, pointers, 4, compiled, apart=False)
            first = builder.gep(pointer, [lane])
            steps = builder.mul(stride, word(WIDTH))
            builder.call(function, [place, first, steps, row_stride, rows, builder.sub(lanes, lane)])
            return context.get_dummy_value()

        return types.void(turned, types.int64, types.int64, view, *(types.int64,) * 5), generate

    return turn


def turn_in_block(builder: Any, place: Any, first: Any, step: Any, row_stride: Any, rows: Any, lanes: Any) -> None:
    """Instructions of ``turn_in``; rows that there are not are the first again."""
    mask, vectors = whole_mask(builder, lanes), []
    for row in range(WIDTH):
        there = builder.icmp_signed("<", word(row), rows)
        offset = builder.select(there, builder.mul(row_stride, word(row)), word(0))
        vectors.append(load_lanes(builder, builder.gep(first, [offset]), mask))
    for col, vector in enumerate(transpose(builder, vectors)):
        store_lanes(builder, vector, builder.gep(place, [builder.mul(step, word(col))]), None)


def turn_back_block(builder: Any, place: Any, first: Any, step: Any, row_stride: Any, rows: Any, lanes: Any) -> None:
    """Instructions of ``turn_back``."""
    mask = whole_mask(builder, lanes)
    vectors = [load_lanes(builder, builder.gep(place, [builder.mul(step, word(col))]), None) for col in range(WIDTH)]
    for row, vector in enumerate(transpose(builder, vectors)):
        with builder.if_then(builder.icmp_signed("<", word(row), rows)):
            store_lanes(builder, vector, builder.gep(first, [builder.mul(row_stride, word(row))]), mask)


def _combination(combine: Any) -> Any:
    @intrinsic
    def of_places(typing_context: Any, turned: Any, to: Any, origin: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(turned)(context, builder, args[0]).data
            places = [builder.gep(data, [builder.mul(at, word(WIDTH))]) for at in args[1:]]
            old, new = (load_lanes(builder, place, None) for place in places)
            store_lanes(builder, combine(builder, turned.dtype, old, new), places[0], None)
            return context.get_dummy_value()

        return types.void(turned, types.int64, types.int64), generate

    return of_places


def _turned_values(view: Any) -> Any:
    return np.empty((TURNED_COLUMNS + WIDTH) * WIDTH, view.dtype)


def _turn_in(
    turned: Any, at: int, stride: int, view: Any, block: int, per_row: int, rows: int, e: int, lane: int
) -> None:  # fmt: skip
    for col in range(min(WIDTH, view.shape[2] - lane)):
        for row in range(rows):
            turned[(at + col * stride) * WIDTH + row] = view[block + row * per_row, e, lane + col]


def _turn_back(
    turned: Any, at: int, stride: int, view: Any, block: int, per_row: int, rows: int, e: int, lane: int
) -> None:  # fmt: skip
    for col in range(min(WIDTH, view.shape[2] - lane)):
        for row in range(rows):
            view[block + row * per_row, e, lane + col] = turned[(at + col * stride) * WIDTH + row]


def _add_turned(turned: Any, to: int, origin: int) -> None:
    for row in range(WIDTH):
        old = turned[to * WIDTH + row]
        turned[to * WIDTH + row] = narrow(widen(old) + widen(turned[origin * WIDTH + row]), old)


def _take_larger_turned(turned: Any, to: int, origin: int) -> None:
    for row in range(WIDTH):
        old, new = turned[to * WIDTH + row], turned[origin * WIDTH + row]
        turned[to * WIDTH + row] = new if widen(new) > widen(old) else old


def _copy_turned(turned: Any, to: int, origin: int) -> None:
    for row in range(WIDTH):
        turned[to * WIDTH + row] = turned[origin * WIDTH + row]


_INTERPRETED = bool(config.DISABLE_JIT)

turned_values: Any = _turned_values if _INTERPRETED else _turned_values_compiled
"""``turned_values(view)``: room on the stack for TURNED_COLUMNS elements of a view, of sixteen rows each."""

turn_in: Any = _turn_in if _INTERPRETED else _turn(turn_in_block)
"""``turn_in(turned, at, stride, view, block, per_row, rows, e, lane)``: element e of sixteen lanes, from ``lane`` on.

Rows are ``per_row`` blocks apart, from ``block`` on, at most sixteen. The first lane's go to place ``at``, the others'
each ``stride`` further, sixteen of them even where the block ends before.
"""

turn_back: Any = _turn_back if _INTERPRETED else _turn(turn_back_block)
"""``turn_back(...)``: what `turn_in` took, back to where it was."""

add_turned: Any = _add_turned if _INTERPRETED else _combination(sums_of)
"""``add_turned(turned, to, origin)``: the element at place ``to`` += the one at ``origin``, in all rows."""

take_larger_turned: Any = _take_larger_turned if _INTERPRETED else _combination(larger_of)
"""``take_larger_turned(turned, to, origin)``: the element at place ``to`` = the larger of the two, in all rows."""

copy_turned: Any = _copy_turned if _INTERPRETED else _combination(copies_of)
"""``copy_turned(turned, to, origin)``: the element at place ``to`` = the one at ``origin``, in all rows."""
