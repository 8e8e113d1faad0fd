"""LLVM instructions that copy rows of elements, but only in selected lanes (PEs of a block).

The compiler cannot see that rows of a view do not overlap. Pointers declared as not aliasing let it
process whole vectors of lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wse_kernels.codegen.elements import constant, row_pointer
from wse_kernels.codegen.functions import WORD, internal_function, short_loop, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, types
from wse_kernels.codegen.vectors import WIDTH, load_lanes, store_lanes


class LanePlace(NamedTuple):
    """Position in an SRAM array at which elements of neighbouring PEs are read or written.

    The array has the axes [block, address, lane]. A block is a group of neighbouring PEs of a mesh
    row, and a lane is one of these PEs. All PEs use the same address.

    Attributes:
        block: Index of the block of PEs.
        address: Address of the element.
        lane: Lane of the first PE.
    """

    block: int | np.int64
    address: int | np.int64
    lane: int | np.int64


class LaneChoice(NamedTuple):
    """Location of the values that say which PEs take part in a copy.

    The values are in a table with one value per PE. A PE takes part if its value is not 0. The
    values of neighbouring PEs (lanes) are consecutive values of one row of the table.

    Attributes:
        row: Row of the table.
        col: Column of the value of the first PE.
    """

    row: int | np.int64
    col: int | np.int64


@intrinsic
def _copy_compiled(
    typing_context: Any, view: Any, target: Any, source: Any, chosen: Any, choice: Any, count: Any, n: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers = []
        for place in args[1:3]:
            block, address, lane = cgutils.unpack_tuple(builder, place)
            rows, lanes = row_pointer(context, builder, view, args[0], block, address)
            pointers.append(builder.gep(rows, [lane]))
        table = context.make_array(chosen)(context, builder, args[3])
        _, width = cgutils.unpack_tuple(builder, table.shape)
        row, col = cgutils.unpack_tuple(builder, args[4])
        pointers.append(builder.gep(table.data, [builder.add(builder.mul(row, width), col)]))
        function = _copy_function(builder.module, view.dtype, [pointer.type for pointer in pointers])
        builder.call(function, [*pointers, args[5], args[6], lanes])
        return context.get_dummy_value()

    return types.void(view, target, source, chosen, choice, types.int64, types.int64), generate


def _copy_function(module: Any, element_type: Any, pointers: list[Any]) -> Any:
    """Return an LLVM function that copies consecutive array rows, for selected PEs only.

    A row contains one element for each of several neighbouring PEs, called lanes. The LLVM function
    has these arguments:

    - pointers to the target, the source and the choices (one byte per lane)
    - the number of lanes, the number of rows, and the row stride in elements

    Each vector of choices is loaded once for all rows. The last vector may overlap the previous one
    and copy some lanes again. If there are fewer lanes than vector elements, they are copied one by
    one.
    """

    def body(builder: Any, target: Any, source: Any, chosen: Any, count: Any, n: Any, stride: Any) -> None:
        def is_chosen(choice: Any) -> Any:
            """Generate code that tests whether a value, or each value in a vector, is not 0."""
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


def _copy(view: Any, target: LanePlace, source: LanePlace, chosen: Any, choice: LaneChoice, count: int, n: int) -> None:
    """Copy ``n`` rows of elements, for the selected PEs only, in plain Python. See `copy_chosen`.

    Args:
        view: SRAM of a region, [block, address, lane], where a lane is a PE of the block.
        target, source: Position of the first element to write and to read.
        chosen: Table of selected PEs. A value other than 0 means that the PE is selected.
        choice: Location of the values of the ``count`` PEs in this table.
        count: Number of neighbouring PEs that may be selected.
        n: Number of consecutive addresses to copy.
    """
    for e in range(n):
        for i in range(count):
            if chosen[choice.row, choice.col + i]:
                at = target.block, target.address + e, target.lane + i
                view[at] = view[source.block, source.address + e, source.lane + i]


copy_chosen: Any = _copy if config.DISABLE_JIT else _copy_compiled
"""Copy rows of lanes to other rows, for the chosen lanes only.

The call is ``copy_chosen(view, target, source, chosen, choice, count, n)``, where ``target`` and
``source`` are `LanePlace` tuples and ``choice`` is a `LaneChoice`. For e < n and i < count, element
e of lane i is copied if chosen[row, col + i] is not 0. Sources and targets must not overlap.
Indices are not checked.
"""
