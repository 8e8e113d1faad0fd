"""Copies and sums from one block to another, for all lanes, by vectors and with prefetching."""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels.codegen.functions import WORD, internal_function, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, types
from wse_kernels.codegen.vectors import CACHE_LINE_BYTES, WIDTH, fetch, load_lanes, rest_mask, store_lanes


def sums_of(builder: Any, element_type: Any, old: Any, new: Any) -> Any:
    """Generate LLVM code that adds two stored vectors.

    The sums are rounded to float32 first and then to the stored type.

    Args:
        builder: LLVM builder.
        element_type: Numba type of the stored elements.
        old: Vector that the receiving PEs have stored.
        new: Vector that they receive.
    """
    total = builder.fadd(widen_ir(builder, element_type, old), widen_ir(builder, element_type, new))
    return narrow_ir(builder, element_type, total)


def copies_of(builder: Any, element_type: Any, old: Any, new: Any) -> Any:
    """Return ``new``, because the stored vector is replaced by a copy of the received vector."""
    return new


def larger_of(builder: Any, element_type: Any, old: Any, new: Any) -> Any:
    """Generate LLVM code for the elementwise maximum of two stored vectors.

    Args:
        builder: LLVM builder.
        element_type: Numba type of the stored elements.
        old: Vector that the receiving PEs have stored.
        new: Vector that they receive.
    """
    larger = builder.fcmp_ordered(">", widen_ir(builder, element_type, new), widen_ir(builder, element_type, old))
    return builder.select(larger, new, old)


def _move_intrinsic(combine: Any) -> Any:
    """Return a numba function that combines the elements that PEs receive with their own.

    The function processes two blocks (groups of neighbouring PEs), a sender and a receiver. Each
    element ``old`` of the receiving block is replaced by ``combine(old, new)``, where ``new`` is
    the corresponding element of the sending block.
    """

    @intrinsic
    def move(
        typing_context: Any, view: Any, receiver: Any, target: Any, sender: Any, source: Any, n: Any
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, lanes = row_pointer(context, builder, view, args[0], args[1], args[2])
            origin = row_pointer(context, builder, view, args[0], args[3], args[4])[0]
            function = _move_function(builder.module, to.type, view.dtype, combine)
            builder.call(function, [to, origin, builder.mul(args[5], lanes)])
            return context.get_dummy_value()

        return types.void(view, *(types.int64,) * 5), generate

    return move


def _move_function(module: Any, pointer: Any, element_type: Any, combine: Any) -> Any:
    """Return an LLVM function that replaces contiguous elements by ``combine(old, new)``.

    The LLVM function's arguments are pointers to the old and the new elements, and the number of
    elements.

    Args:
        module: LLVM module.
        pointer: LLVM type of a pointer to stored elements.
        element_type: Numba type of the elements.
        combine: Function that generates code to combine an old and a new vector.
    """

    def body(builder: Any, to: Any, origin: Any, count: Any) -> None:
        def move(first: Any, mask: Any) -> None:
            """Generate code that combines one vector of old elements with one of new elements.

            Args:
                first: Index of the first element of both vectors.
                mask: LLVM mask of the elements to combine; None for a complete vector.
            """
            place = builder.gep(to, [first])
            old, new = load_lanes(builder, place, mask), load_lanes(builder, builder.gep(origin, [first]), mask)
            store_lanes(builder, combine(builder, element_type, old, new), place, mask)

        whole_vectors_end = builder.sub(count, builder.urem(count, word(WIDTH)))
        with cgutils.for_range_slice(builder, word(0), whole_vectors_end, word(WIDTH), intp=WORD) as (first, _):
            move(first, None)
        with builder.if_then(builder.icmp_unsigned("<", whole_vectors_end, count)):
            move(whole_vectors_end, rest_mask(builder, count))

    return internal_function(
        module, f"wse_{combine.__name__}_rows_{element_type}", [pointer] * 2, 1, body, no_alias=False
    )


@intrinsic
def _fetch_compiled(typing_context: Any, view: Any, block: Any, e: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, lanes = row_pointer(context, builder, view, args[0], args[1], args[2])
        size = builder.mul(builder.mul(args[3], lanes), word(view.dtype.bitwidth // 8))
        step = word(CACHE_LINE_BYTES)
        with cgutils.for_range_slice(builder, word(0), size, step, intp=WORD) as (offset, _):
            fetch(builder, pointer, offset)
        return context.get_dummy_value()

    return types.void(view, *(types.int64,) * 3), generate


def _move_loop(combine: Any) -> Any:
    """Return a plain Python version of the function that `_move_intrinsic` returns.

    The function processes two blocks (groups of neighbouring PEs). Each element ``old`` of the
    receiving block is replaced by ``combine(old, new)``, where ``new`` is the corresponding element
    of the sending block.
    """

    def move(view: Any, receiver: int, target: int, sender: int, source: int, n: int) -> None:
        for e in range(n):
            for lane in range(view.shape[2]):
                old, new = view[receiver, target + e, lane], view[sender, source + e, lane]
                view[receiver, target + e, lane] = combine(old, new)

    return move


_INTERPRETED = bool(config.DISABLE_JIT)

add_rows: Any = (
    _move_loop(lambda old, new: narrow(widen(old) + widen(new), old)) if _INTERPRETED else _move_intrinsic(sums_of)
)  # fmt: skip
"""``add_rows(view, to, target, sender, source, n)``: add elements of the sender at the receiver.

view[to, target + i] += view[sender, source + i] for i < n and all lanes. Indices are not checked
against the size of the view. The same holds for the functions below.
"""

take_larger_rows: Any = (
    _move_loop(lambda old, new: new if widen(new) > widen(old) else old) if _INTERPRETED else _move_intrinsic(larger_of)
)
"""``take_larger_rows(...)``: store the larger of both elements at the receiver."""

copy_rows: Any = _move_loop(lambda old, new: new) if _INTERPRETED else _move_intrinsic(copies_of)
"""``copy_rows(...)``: copy the elements of the sender to the receiver."""

fetch_rows: Any = (lambda view, block, e, n: None) if _INTERPRETED else _fetch_compiled
"""``fetch_rows(view, block, e, n)``: prefetch n elements from element e on into the L2 cache."""
