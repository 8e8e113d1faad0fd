"""Scores of a token with some cache entries folded into its running softmax, whole vectors of lanes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from wse_kernels._elementary import exponential, exponential_of
from wse_kernels._elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels._functions import internal_function, short_loop, word
from wse_kernels._jit import cgutils, config, intrinsic, ir, types
from wse_kernels._vectors import LANE, SINGLES, WIDTH, load_lanes, rest_mask, spread, store_lanes

__all__ = ["fold_entries"]

ENTRIES: Final = 16
"""Entries whose weights are made before values are weighed with them."""
AT_ONCE: Final = 4
"""Exponentials that are taken at once."""
FEATURES: Final = 2
"""Features whose sums are in registers at once."""


@intrinsic
def _fold_compiled(
    typing_context: Any, acc: Any, act: Any, f32: Any, positions: Any, block: Any, scores: Any, v: Any, maxima: Any,
    sums: Any, out: Any, T: Any, F: Any, stride: Any, row: Any, col: Any, first: Any, last: Any, scale: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        views = ((acc, 0, 5), (act, 1, 6), (f32, 2, 7), (f32, 2, 8), (acc, 0, 9))
        rows = [row_pointer(context, builder, view, args[array], args[4], args[e]) for view, array, e in views]
        table = context.make_array(positions)(context, builder, args[3])
        _, width = cgutils.unpack_tuple(builder, table.shape)
        of_entries = builder.gep(table.data, [builder.add(builder.mul(args[13], width), args[14])])
        pointers = [*(pointer for pointer, _ in rows), of_entries, cgutils.alloca_once_value(builder, args[17])]
        stored = acc.dtype, act.dtype

        def body(inner: Any, *arguments: Any) -> None:
            _Code(inner, stored, arguments).fold()

        name, kinds = "wse_fold_entries_" + "_".join(map(str, stored)), [pointer.type for pointer in pointers]
        function = internal_function(builder.module, name, kinds, 6, body, inlined=False)
        builder.call(function, [*pointers, *args[10:13], *args[15:17], rows[0][1]])
        return context.get_dummy_value()

    return types.void(acc, act, f32, positions, *(types.int64,) * 13, types.float32), generate


class _Code:
    """Instructions of the function of pointers to rows, positions and scale, T, F, stride, first, last and lanes."""

    def __init__(self, builder: Any, stored: tuple[Any, Any], arguments: Any) -> None:
        self.builder, (self.acc, self.act), self.f32 = builder, stored, types.float32
        self.scores, self.values, self.maxima, self.sums, self.out, self.positions, scale, *numbers = arguments
        self.T, self.F, self.stride, self.first, self.last, self.lanes = numbers
        self.scale = spread(builder, builder.load(scale))
        self.weights = cgutils.alloca_once(builder, SINGLES, size=word(ENTRIES))
        self.lane, self.mask = word(0), None

    def fold(self) -> None:
        """Whole vectors of lanes, and then the rest of them."""
        builder = self.builder
        whole = builder.sub(self.lanes, builder.urem(self.lanes, word(WIDTH)))
        with short_loop(builder, word(0), whole, WIDTH) as self.lane:
            self.fold_vector()
        with builder.if_then(builder.icmp_unsigned("<", whole, self.lanes)):
            self.lane, self.mask = whole, rest_mask(builder, self.lanes)
            self.fold_vector()

    def fold_vector(self) -> None:
        builder, zero = self.builder, word(0)
        before = self.load(self.maxima, zero, self.f32)
        top = cgutils.alloca_once_value(builder, before)  # 1
        with short_loop(builder, zero, self.T) as t, self.visible(t):
            score, old = self.score(t), builder.load(top)
            builder.store(builder.select(builder.fcmp_ordered(">", score, old), score, old), top)
        maximum = builder.load(top)
        self.store(maximum, self.maxima, zero, self.f32)
        firsts = [self.least(word(i), builder.sub(self.T, word(1))) for i in range(AT_ONCE - 1)]
        factor, *weights = self.exponentials([before, *map(self.score, firsts)], maximum)  # 2, and the begin of 3
        self.keep_weights(weights, firsts)
        total = cgutils.alloca_once_value(builder, builder.fmul(self.load(self.sums, zero, self.f32), factor))
        with short_loop(builder, zero, self.F) as f:
            self.store(builder.fmul(self.load(self.out, f, self.acc), factor), self.out, f, self.acc)
        with short_loop(builder, zero, self.T, ENTRIES) as begin:  # 3
            end = self.least(builder.add(begin, word(ENTRIES)), self.T)
            first = builder.select(builder.icmp_signed("==", begin, zero), word(AT_ONCE - 1), begin)
            with short_loop(builder, first, end, AT_ONCE) as t:
                entries = [self.least(builder.add(t, word(i)), builder.sub(end, word(1))) for i in range(AT_ONCE)]
                weights = self.exponentials([self.score(entry) for entry in entries], maximum)
                self.keep_weights(weights, [builder.sub(entry, begin) for entry in entries])
            with short_loop(builder, begin, end) as t, self.visible(t):
                weight = builder.load(builder.gep(self.weights, [builder.sub(t, begin)]))
                builder.store(builder.fadd(builder.load(total), weight), total)
            with short_loop(builder, zero, self.F, FEATURES) as f:
                last = builder.sub(self.F, word(1))
                self.weigh(begin, end, [self.least(builder.add(f, word(i)), last) for i in range(FEATURES)])
        self.store(builder.load(total), self.sums, zero, self.f32)

    def exponentials(self, vectors: list[Any], maximum: Any) -> list[Any]:
        """Return the exponentials of what vectors are above the maximum, each operation on all of them.

        Each is a long chain of operations, and a processor looks some dozens ahead: one after another, they would wait.
        """
        builder = self.builder
        differences = [builder.fsub(vector, maximum) for vector in vectors]
        while len(differences) > 1:
            differences = [self.joined(*pair) for pair in zip(differences[::2], differences[1::2], strict=True)]
        found = exponential_of(builder, differences[0])
        return [self.shuffled(found, found, i * WIDTH, WIDTH) for i in range(len(vectors))]

    def joined(self, one: Any, other: Any) -> Any:
        return self.shuffled(one, other, 0, 2 * one.type.count)

    def shuffled(self, one: Any, other: Any, first: int, count: int) -> Any:
        """Return the elements of two vectors from ``first`` on."""
        numbers = ir.Constant(ir.VectorType(LANE, count), list(range(first, first + count)))
        return self.builder.shuffle_vector(one, other, numbers)

    def keep_weights(self, weights: list[Any], places: list[Any]) -> None:
        for weight, place in zip(weights, places, strict=True):
            self.builder.store(weight, self.builder.gep(self.weights, [place]))

    def weigh(self, begin: Any, end: Any, features: list[Any]) -> None:
        """Add the weighed values of entries to the sums of some features; one may stand several times among these."""
        builder = self.builder
        totals = [cgutils.alloca_once(builder, SINGLES) for _ in features]
        for f, total in zip(features, totals, strict=True):
            builder.store(self.load(self.out, f, self.acc), total)
        with short_loop(builder, begin, end) as t, self.visible(t):
            weight = builder.load(builder.gep(self.weights, [builder.sub(t, begin)]))
            for f, total in zip(features, totals, strict=True):
                value = self.load(self.values, builder.add(builder.mul(t, self.stride), f), self.act)
                added = builder.fadd(builder.load(total), builder.fmul(weight, value))
                builder.store(widen_ir(builder, self.acc, narrow_ir(builder, self.acc, added)), total)
        for f, total in zip(features, totals, strict=True):
            self.store(builder.load(total), self.out, f, self.acc)

    @contextmanager
    def visible(self, t: Any) -> Iterator[None]:
        """Run the instructions added inside only where the token sees entry t."""
        builder = self.builder
        position = builder.sext(builder.load(builder.gep(self.positions, [t])), self.T.type)
        since, until = builder.icmp_signed(">=", position, self.first), builder.icmp_signed("<=", position, self.last)
        with builder.if_then(builder.and_(since, until)):
            yield

    def score(self, t: Any) -> Any:
        return self.builder.fmul(self.load(self.scores, t, self.acc), self.scale)

    def least(self, one: Any, other: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", one, other), one, other)

    def at(self, rows: Any, row: Any) -> Any:
        """Pointer to the first lane of the vector in a row."""
        return self.builder.gep(rows, [self.builder.add(self.builder.mul(row, self.lanes), self.lane)])

    def load(self, rows: Any, row: Any, stored: Any) -> Any:
        return widen_ir(self.builder, stored, load_lanes(self.builder, self.at(rows, row), self.mask))

    def store(self, value: Any, rows: Any, row: Any, stored: Any) -> None:
        store_lanes(self.builder, narrow_ir(self.builder, stored, value), self.at(rows, row), self.mask)


def _fold(
    acc: Any, act: Any, f32: Any, positions: Any, block: int, scores: int, v: int, maxima: int, sums: int, out: int,
    T: int, F: int, stride: int, row: int, col: int, first: int, last: int, scale: Any,
) -> None:  # fmt: skip
    visible = [t for t in range(T) if first <= positions[row, col + t] <= last]
    for lane in range(acc.shape[2]):
        scaled = {t: widen(acc[block, scores + t, lane]) * scale for t in visible}
        before = top = f32[block, maxima, lane]
        for score in scaled.values():
            top = score if score > top else top
        factor = exponential(before - top)
        f32[block, maxima, lane] = top
        f32[block, sums, lane] *= factor
        for e in range(out, out + F):
            acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * factor, acc[block, e, lane])
        for t, score in scaled.items():
            weight = np.float32(exponential(score - top))
            f32[block, sums, lane] += weight
            for f in range(F):
                old, product = acc[block, out + f, lane], weight * widen(act[block, v + t * stride + f, lane])
                acc[block, out + f, lane] = narrow(widen(old) + product, old)


fold_entries: Any = _fold if config.DISABLE_JIT else _fold_compiled
"""``fold_entries(acc, act, f32, positions, block, scores, v, maxima, sums, out, T, F, stride, row, col, first, last,
scale)``: the scores of one token and one head with T entries folded into its maximum, sum and outputs.

Entry t has the score acc[scores + t] and the values act[v + t stride + f], f < F; the token sees it where
positions[row, col + t] is from ``first`` to ``last``. In all lanes of a block, in this order:

1. f32[maxima] is the largest of what it was and the scores times ``scale``, float32;
2. f32[sums] and acc[out + f] shrink by the exponential of how much the maximum grew;
3. the entries' weights, exponentials of what their scores are above the maximum, are added to f32[sums], and weighed
   values to acc[out + f], entry after entry.

Each product is rounded to float32, each sum to float32 and then to its type. Rows outside a view are not noticed.
"""
