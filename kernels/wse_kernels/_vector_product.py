"""The product of one token with a tile: weights are read once, as fast as memory gives them.

Sums of a few terms at a time are taken in registers, and each term's activations are widened once for all outputs. The
last lanes of a row, which fill no vector, are loaded and stored under a mask. Weights are fetched into the second-level
cache ahead: those of the next block's tile, which lies far behind in memory where no processor looks for it; of a large
tile those some way further on.
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels._elements import clear_rows, multiply_add_rows, narrow_ir, row_pointer, widen_ir
from wse_kernels._functions import WORD, internal_function, word
from wse_kernels._jit import cgutils, config, intrinsic, ir, types
from wse_kernels._vectors import WIDTH, fetch, load_lanes, rest_mask, store_lanes

__all__ = ["multiply_vector"]

MOST_VECTORS: Final = 9
"""Vectors of a block's lanes, at most."""
TERMS_OF_ROWS: Final = 8
"""Terms that are added to a sum while it is in a register, where the weights of a sum are not neighbours."""
MOST_TERMS: Final = 32
"""Such terms where they are neighbours."""
LARGE_TILE_BYTES: Final = 1 << 18
"""Tiles beyond are fetched a piece at a time: with the next block's, they would leave the second-level cache."""
PIECE_BYTES: Final = 8192
"""How far ahead pieces are fetched, in bytes; of 4 to 64 KiB, which were measured, all from 8 on took the same time."""

SINGLE = ir.FloatType()


@intrinsic
def _multiply_compiled(
    typing_context: Any, acc: Any, act: Any, wgt: Any, block: Any, out: Any, x: Any, w: Any,
    K: Any, N: Any, k_stride: Any, n_stride: Any, add: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        views = acc, act, wgt
        (outs, lanes), (xs, _), (weights, _) = (
            row_pointer(context, builder, view, value, args[3], start)
            for view, value, start in zip(views, args, args[4:7], strict=False)
        )
        height = cgutils.unpack_tuple(builder, context.make_array(wgt)(context, builder, args[2]).shape)[1]
        function = _vector_function(builder.module, views, (outs.type, xs.type, weights.type))
        builder.call(function, [outs, xs, weights, *args[7:12], lanes, height])
        return context.get_dummy_value()

    return types.void(acc, act, wgt, *(types.int64,) * 9), generate


def _vector_function(module: Any, views: tuple[Any, Any, Any], pointers: Any) -> Any:
    """The function of pointers that do not alias, K, N, strides of K and N, add, lanes, and rows of a block."""
    stored = [view.dtype for view in views]

    def body(builder: Any, *arguments: Any) -> None:
        _Vector(builder, arguments, stored).multiply()

    return internal_function(module, "wse_multiply_vector_" + "_".join(map(str, stored)), pointers, 7, body)


class _Vector:
    """Instructions of the function, of views with elements of the types ``stored``."""

    def __init__(self, builder: Any, arguments: Any, stored: list[Any]) -> None:
        self.builder = builder
        self.acc, self.act, self.wgt = stored
        self.outs, self.xs, self.weights, self.K, self.N, k_stride, n_stride, add, self.lanes, height = arguments
        self.k_stride, self.n_stride = builder.mul(k_stride, self.lanes), builder.mul(n_stride, self.lanes)
        self.whole = builder.udiv(self.lanes, word(WIDTH))
        single_vector = ir.VectorType(SINGLE, WIDTH)
        self.terms = cgutils.alloca_once(builder, single_vector, size=word(MOST_TERMS * MOST_VECTORS))
        in_a_row = builder.icmp_signed("<", k_stride, n_stride)
        self.together = builder.select(in_a_row, word(MOST_TERMS), word(TERMS_OF_ROWS))
        self.clears = builder.icmp_unsigned("==", add, word(0))
        self.mask = rest_mask(builder, self.lanes)
        element_bytes = word(self.wgt.bitwidth // 8)
        tile_bytes = builder.mul(builder.mul(builder.mul(self.K, self.N), self.lanes), element_bytes)
        self.block_bytes = builder.mul(builder.mul(height, self.lanes), element_bytes)
        large = builder.icmp_unsigned(">", tile_bytes, word(LARGE_TILE_BYTES))
        self.ahead = builder.select(large, word(PIECE_BYTES), self.block_bytes)

    def multiply(self) -> None:
        """Add all terms of all sums, some terms of each at a time."""
        builder = self.builder
        with cgutils.for_range_slice(builder, word(0), self.K, self.together, intp=WORD) as (k, _):
            left = builder.sub(self.K, k)
            terms = builder.select(builder.icmp_signed("<", left, self.together), left, self.together)
            with cgutils.for_range(builder, terms, intp=WORD) as term:
                self._over_vectors(lambda first, mask: self._widen_term(k, term.index, first, mask))
            starts = builder.and_(self.clears, builder.icmp_unsigned("==", k, word(0)))
            with cgutils.for_range(builder, self.N, intp=WORD) as n:
                row = builder.add(builder.mul(k, self.k_stride), builder.mul(n.index, self.n_stride))
                out = builder.mul(n.index, self.lanes)
                self._over_vectors(
                    lambda first, mask: self._add_terms(
                        terms, builder.add(row, first), builder.add(out, first), first, mask, starts
                    )
                )

    def _over_vectors(self, body: Any) -> None:
        """``body(first lane, mask)`` for whole vectors without a mask, and for lanes that fill none with one."""
        builder = self.builder
        with cgutils.for_range(builder, self.whole, intp=WORD) as vector:
            body(builder.mul(vector.index, word(WIDTH)), None)
        first = builder.mul(self.whole, word(WIDTH))
        with builder.if_then(builder.icmp_unsigned("<", first, self.lanes)):
            body(first, self.mask)

    def _widen_term(self, k: Any, term: Any, first: Any, mask: Any) -> None:
        builder = self.builder
        at = builder.add(builder.mul(builder.add(k, term), self.lanes), first)
        place = builder.gep(self.xs, [at])
        fetch(builder, place, self.block_bytes)
        builder.store(self._load(place, self.act, mask), self._term(term, first))

    def _term(self, term: Any, first: Any) -> Any:
        """Pointer to the activations of a term in the vector that begins with a lane."""
        builder = self.builder
        vector = builder.udiv(first, word(WIDTH))
        return builder.gep(self.terms, [builder.add(builder.mul(term, word(MOST_VECTORS)), vector)])

    def _add_terms(self, terms: Any, row: Any, out: Any, first: Any, mask: Any, starts: Any) -> None:
        builder = self.builder
        place = builder.gep(self.outs, [out])
        fetch(builder, place, self.block_bytes)
        before = self._load(place, self.acc, mask)
        total = cgutils.alloca_once_value(
            builder, builder.select(starts, ir.Constant(before.type, [0.0] * WIDTH), before)
        )
        with cgutils.for_range(builder, terms, intp=WORD) as term:
            at = builder.gep(self.weights, [builder.add(row, builder.mul(term.index, self.k_stride))])
            fetch(builder, at, self.ahead)
            product = builder.fmul(builder.load(self._term(term.index, first)), self._load(at, self.wgt, mask))
            rounded = narrow_ir(builder, self.acc, builder.fadd(builder.load(total), product))
            builder.store(widen_ir(builder, self.acc, rounded), total)
        store_lanes(builder, narrow_ir(builder, self.acc, builder.load(total)), place, mask)

    def _load(self, pointer: Any, stored: Any, mask: Any) -> Any:
        return widen_ir(self.builder, stored, load_lanes(self.builder, pointer, mask))


def _multiply_by_rows(
    acc: Any, act: Any, wgt: Any, block: int, out: int, x: int, w: int, K: int, N: int, k_stride: int, n_stride: int,
    add: int,
) -> None:  # fmt: skip
    if add == 0:
        clear_rows(acc, block, out, N)
    for k in range(K):
        multiply_add_rows(acc, act, wgt, block, out, x + k, w + k * k_stride, N, n_stride)


multiply_vector: Any = _multiply_by_rows if config.DISABLE_JIT else _multiply_compiled
"""``multiply_vector(acc, act, wgt, block, out, x, w, K, N, k_stride, n_stride, add)``.

acc[out + n] = the sum over k < K, in ascending order, of act[x + k] * wgt[w + k k_stride + n n_stride], for n < N; it
begins with what there is where ``add`` is not 0. Indices are rows ``[block, row, :]`` of the views; all lanes take
part. Each product is rounded to float32, each sum to float32 and then to acc's type. Rows outside a view are not
noticed: the caller vouches for them.
"""
