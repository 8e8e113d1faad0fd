"""Copying rows of lanes, of which some are chosen, as LLVM instructions.

The compiler cannot see that rows of one view do not overlap, nor that the choice is not in them: pointers that do not
alias let it select among whole vectors of lanes.
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


def _copy_function(module: Any, stored: Any, pointers: list[Any]) -> Any:
    """Return the function of target, source and choice, lanes, rows, and the lanes from one row to the next.

    A vector of lanes is chosen from once, for all rows. The last one may begin among the lanes of the one before, and
    copies some again. Where lanes fill no vector, they are copied one by one.
    """

    def body(builder: Any, target: Any, source: Any, chosen: Any, count: Any, n: Any, stride: Any) -> None:
        def is_chosen(choice: Any) -> Any:
            return builder.icmp_unsigned("!=", choice, constant(choice.type, 0))

        last = builder.sub(count, word(WIDTH))
        with builder.if_else(builder.icmp_signed("<=", word(0), last)) as (in_vectors, one_by_one):
            with in_vectors, short_loop(builder, word(0), count, WIDTH) as begin:
                lane = builder.select(builder.icmp_signed("<", begin, last), begin, last)
                taken = is_chosen(load_lanes(builder, builder.gep(chosen, [lane]), None))
                with cgutils.for_range(builder, n, intp=WORD) as row:
                    at = builder.add(builder.mul(row.index, stride), lane)
                    place, new = builder.gep(target, [at]), load_lanes(builder, builder.gep(source, [at]), None)
                    mixed = builder.select(taken, new, load_lanes(builder, place, None))
                    store_lanes(builder, mixed, place, None)
            with one_by_one, short_loop(builder, word(0), count) as lane:
                taken = is_chosen(builder.load(builder.gep(chosen, [lane])))
                with builder.if_then(taken), short_loop(builder, word(0), n) as row:
                    at = builder.add(builder.mul(row, stride), lane)
                    builder.store(builder.load(builder.gep(source, [at])), builder.gep(target, [at]))

    return internal_function(module, f"wse_copy_chosen_{stored}", pointers, 3, body)


def _copy(
    view: Any, block: int, target: int, lane: int, from_block: int, source: int, from_lane: int,
    chosen: Any, choice: int, place: int, count: int, n: int,
) -> None:  # fmt: skip
    for e in range(n):
        for i in range(count):
            if chosen[choice, place + i]:
                view[block, target + e, lane + i] = view[from_block, source + e, from_lane + i]


copy_chosen: Any = _copy if config.DISABLE_JIT else _copy_compiled
"""``copy_chosen(view, block, target, lane, from_block, source, from_lane, chosen, choice, place, count, n)``.

view[block, target + e, lane + i] = view[from_block, source + e, from_lane + i] for i < count and e < n, where
chosen[choice, place + i] is not 0. What is read is not among what is written. Indices beyond an array are not noticed.
"""
