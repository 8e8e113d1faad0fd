"""LLVM instructions that copy rows of lanes, of which only the chosen lanes are overwritten.

The compiler cannot see that rows of a view do not overlap. Pointers declared as not aliasing let it
process whole vectors of lanes.
"""

from __future__ import annotations

from typing import Any

from wse_kernels._elements import constant, row_pointer
from wse_kernels._functions import WORD, internal_function, short_loop, word
from wse_kernels._jit import cgutils, config, intrinsic, types
from wse_kernels._vectors import WIDTH, load_lanes, store_lanes

__all__ = ["copy_chosen"]


@intrinsic
def _copy_compiled(
    typing_context: Any,
    view: Any, block: Any, target: Any, lane: Any, from_block: Any, source: Any, from_lane: Any,
    chosen: Any, choice: Any, place: Any, count: Any, n: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, lanes = row_pointer(context, builder, view, args[0], args[1], args[2])
        origin, _ = row_pointer(context, builder, view, args[0], args[4], args[5])
        choices = context.make_array(chosen)(context, builder, args[7])
        _, width = cgutils.unpack_tuple(builder, choices.shape)
        first = builder.gep(choices.data, [builder.add(builder.mul(args[8], width), args[9])])
        pointers = [builder.gep(to, [args[3]]), builder.gep(origin, [args[6]]), first]
        function = _copy_function(builder.module, view.dtype, [pointer.type for pointer in pointers])
        builder.call(function, [*pointers, args[10], args[11], lanes])
        return context.get_dummy_value()

    indices = (types.int64,) * 6
    return types.void(view, *indices, chosen, *(types.int64,) * 4), generate


def _copy_function(module: Any, element_type: Any, pointers: list[Any]) -> Any:
    """Return the LLVM function that copies the chosen lanes of n rows.

    Its arguments are pointers to target, source and choice, number of lanes, number of rows, and
    lanes from one row to the next. Each vector of the choice is loaded once for all rows. The last
    vector may overlap the one before and copy some lanes again. If there are fewer lanes than a
    vector has, they are copied one by one.
    """

    def body(builder: Any, target: Any, source: Any, chosen: Any, count: Any, n: Any, stride: Any) -> None:
        def is_chosen(choice: Any) -> Any:
            """Generate the test whether a choice, or each choice of a vector, is not 0."""
            return builder.icmp_unsigned("!=", choice, constant(choice.type, 0))

        last = builder.sub(count, word(WIDTH))
        with builder.if_else(builder.icmp_signed("<=", word(0), last)) as (in_vectors, one_by_one):
            with in_vectors, short_loop(builder, word(0), count, WIDTH) as begin:
                lane = builder.select(builder.icmp_signed("<", begin, last), begin, last)
                is_taken = is_chosen(load_lanes(builder, builder.gep(chosen, [lane]), None))
                with cgutils.for_range(builder, n, intp=WORD) as row:
                    at = builder.add(builder.mul(row.index, stride), lane)
                    place, new = builder.gep(target, [at]), load_lanes(builder, builder.gep(source, [at]), None)
                    blended = builder.select(is_taken, new, load_lanes(builder, place, None))
                    store_lanes(builder, blended, place, None)
            with one_by_one, short_loop(builder, word(0), count) as lane:
                is_taken = is_chosen(builder.load(builder.gep(chosen, [lane])))
                with builder.if_then(is_taken), short_loop(builder, word(0), n) as row:
                    at = builder.add(builder.mul(row, stride), lane)
                    builder.store(builder.load(builder.gep(source, [at])), builder.gep(target, [at]))

    return internal_function(module, f"wse_copy_chosen_{element_type}", pointers, 3, body)


def _copy(
    view: Any, block: int, target: int, lane: int, from_block: int, source: int, from_lane: int,
    chosen: Any, choice: int, place: int, count: int, n: int,
) -> None:  # fmt: skip
    for e in range(n):
        for i in range(count):
            if chosen[choice, place + i]:
                view[block, target + e, lane + i] = view[from_block, source + e, from_lane + i]


copy_chosen: Any = _copy if config.DISABLE_JIT else _copy_compiled
"""Copy rows of lanes to other rows, for the chosen lanes only.

The call is ``copy_chosen(view, block, target, lane, from_block, source, from_lane, chosen, choice,
place, count, n)``. It sets view[block, target + e, lane + i] = view[from_block, source + e,
from_lane + i] for i < count and e < n, where chosen[choice, place + i] is not 0. Sources and
targets must not overlap. Indices are not checked.
"""
