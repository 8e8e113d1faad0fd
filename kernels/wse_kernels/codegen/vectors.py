"""LLVM vectors of sixteen neighbouring elements, loaded and stored whole or under a mask."""

from __future__ import annotations

from typing import Any, Final

from wse_kernels.codegen.functions import WORD, word
from wse_kernels.codegen.jit import cgutils, ir

WIDTH: Final = 16
"""Number of elements of a vector."""
CACHE_LINE_BYTES: Final = 64
PREFETCH_BYTES: Final = 8192
"""Distance from the weights that are read to those that are prefetched, in bytes.

All distances from 8 to 64 KiB take the same time, and 4 KiB takes longer.
"""

BYTE = ir.IntType(8)
LANE = ir.IntType(32)
SINGLES = ir.VectorType(ir.FloatType(), WIDTH)
"""LLVM type of a vector of float32."""


def splat(builder: Any, value: Any) -> Any:
    """Generate an LLVM vector of WIDTH elements, all equal to ``value``."""
    single = builder.insert_element(
        ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined), value, ir.Constant(LANE, 0)
    )
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(LANE, WIDTH), [0] * WIDTH))


def whole_mask(builder: Any, count: Any) -> Any:
    """Generate the mask of the first ``count`` elements of a vector.

    The mask selects all elements if ``count`` is at least the length of the vector.
    """
    numbers = ir.Constant(ir.VectorType(WORD, WIDTH), list(range(WIDTH)))
    return builder.icmp_signed("<", numbers, splat(builder, count))


def rest_mask(builder: Any, count: Any) -> Any:
    """Generate the mask of the last, incomplete vector of an array of ``count`` elements.

    It selects the ``count`` modulo WIDTH elements that remain after all full vectors.
    """
    return whole_mask(builder, builder.urem(count, word(WIDTH)))


def min_lane(builder: Any, bytes_: Any) -> Any:
    """Generate code for the minimum element of a vector of unsigned bytes."""
    return _reduce_lanes(builder, "umin", bytes_)


def max_lane(builder: Any, bytes_: Any) -> Any:
    """Generate code for the maximum element of a vector of unsigned bytes."""
    return _reduce_lanes(builder, "umax", bytes_)


def _reduce_lanes(builder: Any, by: str, bytes_: Any) -> Any:
    """Generate code that reduces a vector of unsigned bytes to one byte.

    Args:
        builder: LLVM builder.
        by: Operation: ``umin`` for the minimum or ``umax`` for the maximum.
        bytes_: The vector.
    """
    kind = ir.FunctionType(BYTE, [bytes_.type])
    name = f"llvm.vector.reduce.{by}.{_suffix(bytes_.type)}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [bytes_])


def load_lanes(builder: Any, pointer: Any, mask: Any) -> Any:
    """Generate a load of WIDTH consecutive elements as a vector.

    Args:
        builder: LLVM builder.
        pointer: Pointer to the first element.
        mask: Elements to load; all others become 0. None loads all elements.
    """
    kind = ir.VectorType(pointer.type.pointee, WIDTH)
    at, align = builder.bitcast(pointer, kind.as_pointer()), _bytes_of(pointer.type.pointee)
    if mask is None:
        return builder.load(at, align=align)
    signature = ir.FunctionType(kind, [at.type, LANE, mask.type, kind])
    load = cgutils.get_or_insert_function(builder.module, signature, f"llvm.masked.load.{_suffix(kind)}.p0")
    zeros = ir.Constant(kind, [0] * WIDTH)
    return builder.call(load, [at, ir.Constant(LANE, align), mask, zeros])


def store_lanes(builder: Any, value: Any, pointer: Any, mask: Any) -> None:
    """Generate a store of the elements of a vector.

    Args:
        builder: LLVM builder.
        value: The vector.
        pointer: Pointer to the first element in memory.
        mask: Elements to store; all others keep their values. None stores all elements.
    """
    at, align = builder.bitcast(pointer, value.type.as_pointer()), _bytes_of(pointer.type.pointee)
    if mask is None:
        builder.store(value, at, align=align)
        return
    signature = ir.FunctionType(ir.VoidType(), [value.type, at.type, LANE, mask.type])
    store = cgutils.get_or_insert_function(builder.module, signature, f"llvm.masked.store.{_suffix(value.type)}.p0")
    builder.call(store, [value, at, ir.Constant(LANE, align), mask])


def transpose(builder: Any, vectors: list[Any]) -> list[Any]:
    """Generate code that transposes sixteen vectors of sixteen elements.

    Each of four rounds interleaves the first half of the vectors with the second half.
    """
    half = WIDTH // 2
    low, high = (
        [number for pair in zip(range(first, first + half), range(first + WIDTH, first + WIDTH + half), strict=True)
         for number in pair]
        for first in (0, half)
    )  # fmt: skip
    order = ir.VectorType(LANE, WIDTH)
    for _ in range(WIDTH.bit_length() - 1):
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [
            builder.shuffle_vector(vector, partner, ir.Constant(order, numbers))
            for vector, partner in pairs
            for numbers in (low, high)
        ]
    return vectors


def fetch(builder: Any, pointer: Any, offset: Any) -> None:
    """Generate a prefetch of data into the L2 cache, ``offset`` bytes after a pointer."""
    byte = BYTE.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, LANE, LANE, LANE])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    at = builder.gep(builder.bitcast(pointer, byte), [offset])
    builder.call(prefetch, [at, *(ir.Constant(LANE, v) for v in (0, 2, 1))])


def _bytes_of(element: Any) -> int:
    """Return the size of an LLVM element type in bytes."""
    return 4 if isinstance(element, ir.FloatType) else int(element.width) // 8


def _suffix(kind: Any) -> str:
    """Return the suffix that LLVM appends to intrinsic names for a vector type."""
    element = kind.element
    return f"v{WIDTH}f32" if isinstance(element, ir.FloatType) else f"v{WIDTH}i{element.width}"
