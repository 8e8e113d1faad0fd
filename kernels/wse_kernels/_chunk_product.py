"""The product of a chunk of tokens with a tile, sums in registers and weights read once for several tokens.

For one token reading the weights is the bound (`wse_kernels._vector_product`). With more tokens the arithmetic is:
here a block of some sums stays in registers for all K, so that each activation and each weight that is read and widened
takes part in several products. Each sum is in ascending order of K.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wse_kernels._elements import multiply_add_rows, narrow_ir, row_pointer, widen_ir
from wse_kernels._functions import WORD, internal_function, word
from wse_kernels._jit import cgutils, config, helper_function, intrinsic, ir, types
from wse_kernels._lanes import MOST_LANES
from wse_kernels._vector_product import multiply_vector
from wse_kernels._vectors import WIDTH, fetch, load_lanes, store_lanes, whole_mask

__all__ = ["multiply_chunk"]

TOKENS, OUTPUTS = 2, 4
"""Tokens and outputs whose sums are in registers at once: with more, they are too many where vectors have 256 bits."""

TERMS, MOST_TOKENS = 16, 16
"""Terms of the sums, and tokens, whose weights and activations are widened at once: those stay in near caches."""

VECTOR = ir.VectorType(ir.FloatType(), WIDTH)


@intrinsic
def _multiply_vectors(
    typing_context: Any,
    acc: Any, act: Any, wgt: Any, block: Any, out: Any, x: Any, w: Any, M: Any, K: Any, N: Any,
    x_stride: Any, k_stride: Any, n_stride: Any, out_stride: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        views, starts = (acc, act, wgt), args[4:7]
        pointers, lanes = [], None
        for view, value, start in zip(views, args, starts, strict=False):
            pointer, lanes = row_pointer(context, builder, view, value, args[3], start)
            pointers.append(pointer)
        strides = [builder.mul(stride, lanes) for stride in args[10:14]]
        function = _chunk_function(builder.module, views, [pointer.type for pointer in pointers])
        builder.call(function, [*pointers, *args[7:10], *strides, lanes])
        return context.get_dummy_value()

    return types.void(acc, act, wgt, *(types.int64,) * 11), generate


_vectors: Any = _multiply_vectors


def _chunk_function(module: Any, views: tuple[Any, Any, Any], pointers: list[Any]) -> Any:
    """The function of pointers that do not alias, M, K, N, strides of x, K, N and out, and lanes.

    For some terms of the sums and some tokens at a time:

    1. Their activations are widened into scratch, where those of a vector's lanes are side by side.
    2. For some outputs at a time, weights are widened likewise.
    3. Block by block of tokens, sums are read from memory, added to in registers, and put back.

    Where fewer tokens or outputs are left than a block has, it has the last one several times: each makes the same sum,
    of what was there before any is put back. The last vector may begin among the lanes of the one before.
    """
    stored = [view.dtype for view in views]

    def body(builder: Any, *arguments: Any) -> None:
        M, K, N, *_, lanes = arguments[3:]
        code = _Code(builder, arguments, stored)
        zero, last_vector = word(0), builder.sub(lanes, word(WIDTH))
        with (
            _steps(builder, zero, K, TERMS) as first_term,
            _steps(builder, zero, M, MOST_TOKENS) as first_token,
        ):
            terms = _least(builder, builder.sub(K, first_term), word(TERMS))
            count = _least(builder, builder.sub(M, first_token), word(MOST_TOKENS))
            with (  # 1
                _steps(builder, zero, lanes, WIDTH) as begin,
                _steps(builder, zero, count, 1) as m,
                _steps(builder, zero, terms, 1) as k,
            ):
                lane = _least(builder, begin, last_vector)
                code.widen_activation(builder.add(first_token, m), builder.add(first_term, k), m, k, begin, lane)
            with _steps(builder, zero, N, OUTPUTS) as n:
                outputs = _following(builder, n, N, OUTPUTS)
                with _steps(builder, zero, terms, 1) as k, _steps(builder, zero, lanes, WIDTH) as begin:  # 2
                    lane = _least(builder, begin, last_vector)
                    code.widen_weights(outputs, builder.add(first_term, k), k, begin, lane)
                with _steps(builder, zero, lanes, WIDTH) as begin, _steps(builder, zero, count, TOKENS) as m:  # 3
                    tokens = _following(builder, m, count, TOKENS)
                    code.multiply(first_token, tokens, outputs, terms, begin, _least(builder, begin, last_vector))

    name = "wse_multiply_chunk_" + "_".join(map(str, stored))
    return internal_function(module, name, pointers, 8, body, inlined=False)


def _following(builder: Any, first: Any, end: Any, count: int) -> list[Any]:
    """The indices from ``first`` on, ``count`` of them; the last below ``end`` stands for each that is not below it."""
    last = builder.sub(end, word(1))
    return [_least(builder, builder.add(first, word(i)), last) for i in range(count)]


@contextmanager
def _steps(builder: Any, begin: Any, end: Any, step: int) -> Iterator[Any]:
    with cgutils.for_range_slice(builder, begin, end, word(step), intp=WORD) as (index, _):
        yield index


def _least(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.icmp_signed("<", one, other), one, other)


class _Code:
    """Instructions for one vector of lanes: of the lanes from ``begin`` on, or from ``lane`` on where that is less."""

    def __init__(self, builder: Any, arguments: Any, stored: list[Any]) -> None:
        self.builder, self.stored = builder, stored
        self.acc, self.act, self.wgt, *_ = arguments
        self.x_stride, self.k_stride, self.n_stride, self.out_stride, self.lanes = arguments[6:]
        self.weights, self.activations = (
            cgutils.alloca_once(builder, VECTOR, size=word(TERMS * most * (MOST_LANES // WIDTH)))
            for most in (OUTPUTS, MOST_TOKENS)
        )

    def widen_activation(self, token: Any, term: Any, m: Any, k: Any, begin: Any, lane: Any) -> None:
        """Widen an activation, the one of token m and term k in scratch."""
        value = self.load(self.at(self.act, lane, (token, self.x_stride), (term, self.lanes)), self.stored[1])
        self.builder.store(value, self.activation_place(begin, m, k), align=WIDTH)

    def widen_weights(self, outputs: list[Any], term: Any, k: Any, begin: Any, lane: Any) -> None:
        """Widen the weights of a term, and fetch those of the outputs after these."""
        builder = self.builder
        for j, output in enumerate(outputs):
            weights = self.at(self.wgt, lane, (term, self.k_stride), (output, self.n_stride))
            ahead = self.at(weights, builder.mul(self.n_stride, word(OUTPUTS)))
            fetch(builder, ahead, word(0))
            builder.store(self.load(weights, self.stored[2]), self.weight_place(begin, k, j), align=WIDTH)

    def multiply(
        self, first_token: Any, tokens: list[Any], outputs: list[Any], terms: Any, begin: Any, lane: Any
    ) -> None:
        """Add the products of some terms to the sums of outputs and tokens, these counted from the first in scratch."""
        builder, zero = self.builder, word(0)
        acc = self.stored[0]
        rows = [builder.add(first_token, m) for m in tokens]
        outs = [self.at(self.acc, lane, (row, self.out_stride), (n, self.lanes)) for row in rows for n in outputs]
        sums = [self.load(out, acc) for out in outs]
        before, loop, after = builder.block, builder.append_basic_block("k"), builder.append_basic_block("k_end")
        builder.branch(loop)
        builder.position_at_end(loop)
        k, totals = builder.phi(WORD), [builder.phi(VECTOR) for _ in outs]
        made: list[Any] = []
        weights = [builder.load(self.weight_place(begin, k, j), align=WIDTH) for j in range(OUTPUTS)]
        for m in tokens:
            value = builder.load(self.activation_place(begin, m, k), align=WIDTH)
            for weight in weights:
                total = builder.fadd(totals[len(made)], builder.fmul(value, weight))
                made.append(widen_ir(builder, acc, narrow_ir(builder, acc, total)))
        next_k = builder.add(k, word(1))
        for phi, first, after_one in zip((k, *totals), (zero, *sums), (next_k, *made), strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(after_one, loop)
        builder.cbranch(builder.icmp_signed("<", next_k, terms), loop, after)
        builder.position_at_end(after)
        with builder.if_else(builder.icmp_signed("==", begin, lane)) as (own_lanes, shared_lanes):
            with own_lanes:
                for out, value in zip(outs, made, strict=True):
                    self.store(value, out, acc)
            with shared_lanes:
                had = whole_mask(builder, builder.sub(begin, lane))
                mixed = [builder.select(had, first, value) for first, value in zip(sums, made, strict=True)]
                for out, value in zip(outs, mixed, strict=True):
                    self.store(value, out, acc)

    def at(self, base: Any, lane: Any, *indices: tuple[Any, Any]) -> Any:
        """Pointer to a lane of the row at indices (index, stride)."""
        for index, stride in indices:
            lane = self.builder.add(lane, self.builder.mul(index, stride))
        return self.builder.gep(base, [lane])

    def weight_place(self, begin: Any, k: Any, j: int) -> Any:
        """Pointer to the weights of a vector in scratch, ``[vector, term, output]``."""
        return self.scratch(self.weights, (begin, OUTPUTS * TERMS // WIDTH), (k, OUTPUTS), (word(j), 1))

    def activation_place(self, begin: Any, m: Any, k: Any) -> Any:
        """Pointer to the activations of a vector in scratch, ``[vector, token, term]``."""
        return self.scratch(self.activations, (begin, MOST_TOKENS * TERMS // WIDTH), (m, TERMS), (k, 1))

    def scratch(self, base: Any, *indices: tuple[Any, int]) -> Any:
        builder, place = self.builder, word(0)
        for index, stride in indices:
            place = builder.add(place, builder.mul(index, word(stride)))
        return builder.gep(base, [place])

    def load(self, pointer: Any, stored: Any) -> Any:
        return widen_ir(self.builder, stored, load_lanes(self.builder, pointer, None))

    def store(self, value: Any, pointer: Any, stored: Any) -> None:
        store_lanes(self.builder, narrow_ir(self.builder, stored, value), pointer, None)


def _multiply_by_rows(
    acc: Any, act: Any, wgt: Any, block: int, out: int, x: int, w: int, M: int, K: int, N: int,
    x_stride: int, k_stride: int, n_stride: int, out_stride: int,
) -> None:  # fmt: skip
    for k in range(K):
        for m in range(M):
            e = out + m * out_stride
            multiply_add_rows(acc, act, wgt, block, e, x + m * x_stride + k, w + k * k_stride, N, n_stride)


@helper_function
def _multiply(
    acc: Any, act: Any, wgt: Any, block: int, out: int, x: int, w: int, M: int, K: int, N: int,
    x_stride: int, k_stride: int, n_stride: int, out_stride: int,
) -> None:  # fmt: skip
    if M > 1 and K > 0 and acc.shape[2] >= WIDTH:
        _vectors(acc, act, wgt, block, out, x, w, M, K, N, x_stride, k_stride, n_stride, out_stride)
    else:
        for m in range(M):
            multiply_vector(
                acc, act, wgt, block, out + m * out_stride, x + m * x_stride, w, K, N, k_stride, n_stride, 1
            )  # fmt: skip


multiply_chunk: Any = _multiply_by_rows if config.DISABLE_JIT else _multiply
"""``multiply_chunk(acc, act, wgt, block, out, x, w, M, K, N, x_stride, k_stride, n_stride, out_stride)``.

acc[out + m out_stride + n] += the sum over k < K of act[x + m x_stride + k] * wgt[w + k k_stride + n n_stride], for
m < M and n < N. Indices are rows ``[block, row, :]`` of the views; all lanes take part.
Each product is rounded to float32, each sum to float32 and then to acc's type. Rows outside a view are not noticed.
"""
