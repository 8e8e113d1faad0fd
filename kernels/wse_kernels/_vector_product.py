"""The product of one token with a tile: weights are read once, as fast as memory gives them.

Sums of a few terms at a time are taken in registers, and each term's activations are widened once for all outputs. The
last lanes of a row, which fill no vector, are loaded and stored under a mask. Weights are fetched into the second-level
cache ahead: those of the next block's tile, which lies far behind in memory where no processor looks for it; of a large
tile those some way further on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wse_kernels._elements import clear_rows, constant, multiply_add_rows, narrow_ir, row_pointer, widen_ir
from wse_kernels._functions import WORD, internal_function, word
from wse_kernels._jit import cgutils, config, intrinsic, types
from wse_kernels._vectors import PREFETCH_BYTES, SINGLES, WIDTH, fetch, load_lanes, rest_mask, store_lanes
from wse_kernels._weights import MOST_VECTORS, Lanes, Term, WeightKind

__all__ = ["block_bytes_of", "multiply_vector", "vector_function"]

TERMS_OF_ROWS: Final = 8
"""Terms that are added to a sum while it is in a register, where the weights of a sum are not neighbours."""
MOST_TERMS: Final = 32
"""Such terms where they are neighbours."""
LARGE_TILE_BYTES: Final = 1 << 18
"""Tiles beyond are fetched a piece at a time: with the next block's, they would leave the second-level cache."""


@intrinsic
def _multiply_compiled(
    typing_context: Any, acc: Any, act: Any, wgt: Any, block: Any, out: Any, x: Any, w: Any,
    K: Any, N: Any, k_stride: Any, n_stride: Any, add: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (outs, lanes), (xs, _), (weights, _) = (
            row_pointer(context, builder, view, value, args[3], start)
            for view, value, start in zip((acc, act, wgt), args, args[4:7], strict=False)
        )
        size = block_bytes_of(context, builder, acc, args[0])
        function = vector_function(
            builder.module, (acc.dtype, act.dtype), WeightKind((wgt.dtype,)), (outs.type, xs.type, weights.type)
        )
        builder.call(function, [outs, xs, weights, *args[9:11], *args[7:9], args[11], lanes, size])
        return context.get_dummy_value()

    return types.void(acc, act, wgt, *(types.int64,) * 9), generate


def block_bytes_of(context: Any, builder: Any, view: Any, value: Any) -> Any:
    """Bytes of a block of an array, where ``view`` is its type."""
    _, height, lanes = cgutils.unpack_tuple(builder, context.make_array(view)(context, builder, value).shape)
    return builder.mul(builder.mul(height, lanes), word(view.dtype.bitwidth // 8))


def vector_function(module: Any, sums: tuple[Any, Any], kind: WeightKind, pointers: Sequence[Any]) -> Any:
    """The function of sums, activations, what weights are made of, and K, N, add, lanes and bytes of a block.

    ``sums`` are the types of sums and activations, and ``pointers`` those of what does not overlap.
    """
    of_weights = kind.pointers + kind.numbers

    def body(builder: Any, outs: Any, xs: Any, *arguments: Any) -> None:
        numbers = arguments[of_weights:]
        _Vector(builder, sums, kind, outs, xs, arguments[:of_weights], numbers).multiply()

    name = "wse_multiply_vector_" + "_".join(map(str, (*sums, kind)))
    return internal_function(module, name, pointers, kind.numbers + 5, body)


class _Vector:
    """Instructions of the function."""

    def __init__(
        self, builder: Any, sums: tuple[Any, Any], kind: WeightKind, outs: Any, xs: Any, weights: Any, numbers: Any
    ) -> None:
        self.builder, self.outs, self.xs = builder, outs, xs
        self.acc, self.act = sums
        self.K, self.N, add, self.lanes, self.block_bytes = numbers
        self.weights = kind.weights(builder, weights, self.lanes, MOST_TERMS)
        self.whole = builder.udiv(self.lanes, word(WIDTH))
        self.terms = cgutils.alloca_once(builder, SINGLES, size=word(MOST_TERMS * MOST_VECTORS))
        self.terms_at_once = builder.select(self.weights.in_a_row, word(MOST_TERMS), word(TERMS_OF_ROWS))
        self.clears = builder.icmp_unsigned("==", add, word(0))
        self.mask = rest_mask(builder, self.lanes)
        tile_bytes = builder.mul(builder.mul(builder.mul(self.K, self.N), self.lanes), self.weights.bytes_a_term)
        large = builder.icmp_unsigned(">", tile_bytes, word(LARGE_TILE_BYTES))
        self.ahead = builder.select(large, word(PREFETCH_BYTES), self.block_bytes)

    def multiply(self) -> None:
        """Add all terms of all sums, some terms of each at a time; sums without terms take one turn with none."""
        builder = self.builder
        end = builder.select(builder.icmp_signed(">", self.K, word(0)), self.K, word(1))
        with cgutils.for_range_slice(builder, word(0), end, self.terms_at_once, intp=WORD) as (k, _):
            left = builder.sub(self.K, k)
            terms = builder.select(builder.icmp_signed("<", left, self.terms_at_once), left, self.terms_at_once)
            with cgutils.for_range(builder, terms, intp=WORD) as number:
                term = Term(number.index, builder.add(k, number.index))
                self._over_vectors(lambda lanes: self._widen_term(term, lanes))
            starts = builder.and_(self.clears, builder.icmp_unsigned("==", k, word(0)))
            with cgutils.for_range(builder, self.N, intp=WORD) as n:
                self._over_vectors(lambda lanes: self._add_terms(k, terms, n.index, lanes, starts))

    def _over_vectors(self, body: Any) -> None:
        """``body(lanes)`` for whole vectors without a mask, and for lanes that fill none with one."""
        builder = self.builder
        with cgutils.for_range(builder, self.whole, intp=WORD) as vector:
            body(Lanes(vector.index, builder.mul(vector.index, word(WIDTH))))
        first = builder.mul(self.whole, word(WIDTH))
        with builder.if_then(builder.icmp_unsigned("<", first, self.lanes)):
            body(Lanes(self.whole, first, self.mask))

    def _widen_term(self, term: Term, lanes: Lanes) -> None:
        builder = self.builder
        place = builder.gep(self.xs, [builder.add(builder.mul(term.k, self.lanes), lanes.first)])
        fetch(builder, place, self.block_bytes)
        builder.store(self._load(place, self.act, lanes), self._term(term.number, lanes))
        self.weights.prepare(term, lanes)

    def _term(self, number: Any, lanes: Lanes) -> Any:
        """Pointer to the activations of a term in a vector."""
        builder = self.builder
        return builder.gep(self.terms, [builder.add(builder.mul(number, word(MOST_VECTORS)), lanes.vector)])

    def _add_terms(self, k: Any, terms: Any, n: Any, lanes: Lanes, starts: Any) -> None:
        builder = self.builder
        place = builder.gep(self.outs, [builder.add(builder.mul(n, self.lanes), lanes.first)])
        fetch(builder, place, self.block_bytes)
        before = self._load(place, self.acc, lanes)
        total = cgutils.alloca_once_value(builder, builder.select(starts, constant(SINGLES, 0.0), before))
        with cgutils.for_range(builder, terms, intp=WORD) as number:
            term = Term(number.index, builder.add(k, number.index))
            fetch(builder, self.weights.place(term.k, n, lanes), self.ahead)
            weights = self.weights.load(term, n, lanes, word(0))
            product = builder.fmul(builder.load(self._term(term.number, lanes)), weights)
            rounded = narrow_ir(builder, self.acc, builder.fadd(builder.load(total), product))
            builder.store(widen_ir(builder, self.acc, rounded), total)
        store_lanes(builder, narrow_ir(builder, self.acc, builder.load(total)), place, lanes.mask)

    def _load(self, pointer: Any, stored: Any, lanes: Lanes) -> Any:
        return widen_ir(self.builder, stored, load_lanes(self.builder, pointer, lanes.mask))


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

acc[out + n] = the sum over k < K, in ascending order, of act[x + k] * wgt[w + k k_stride + n n_stride], for n < N; the
sum begins with what there is where ``add`` is not 0. Indices are rows ``[block, row, :]`` of the views; all lanes take
part. Each product is rounded to float32, each sum to float32 and then to acc's type. Rows outside a view are not
noticed: the caller vouches for them.
"""
