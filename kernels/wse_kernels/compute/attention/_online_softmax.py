"""Online softmax: add more cache entries to the running maximum, sum and values of a token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from wse_kernels.codegen.elementary import exponential, exponential_of
from wse_kernels.codegen.elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels.codegen.functions import internal_function, minimum, short_loop, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, types
from wse_kernels.codegen.vectors import LANE, SINGLES, WIDTH, load_lanes, rest_mask, splat, store_lanes
from wse_kernels.operands.cache_entries import FoldedEntries, VisibleEntries

ENTRIES: Final = 16
"""Number of entries whose weights are computed before their values are added."""
AT_ONCE: Final = 4
"""Number of exponentials that are computed at once."""
FEATURES: Final = 2
"""Number of features whose sums are in registers at once."""


@intrinsic
def _fold_compiled(
    typing_context: Any, views: Any, block: Any, entries: Any, positions: Any, visible_range: Any, scale: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc_view, act_view, f32_view = zip(views.types, cgutils.unpack_tuple(builder, args[0]), strict=True)
        *addresses, T, F, stride = cgutils.unpack_tuple(builder, args[2])
        row, col, first, last = cgutils.unpack_tuple(builder, args[4])
        view_addresses = zip((acc_view, act_view, f32_view, f32_view, acc_view), addresses, strict=True)
        rows = [row_pointer(context, builder, *view, args[1], address) for view, address in view_addresses]
        table = context.make_array(positions)(context, builder, args[3])
        _, width = cgutils.unpack_tuple(builder, table.shape)
        entry_positions = builder.gep(table.data, [builder.add(builder.mul(row, width), col)])
        pointers = [*(pointer for pointer, _ in rows), entry_positions, cgutils.alloca_once_value(builder, args[5])]
        element_types = views.types[0].dtype, views.types[1].dtype

        def body(inner: Any, *arguments: Any) -> None:
            _CodeGenerator(inner, element_types, arguments).fold()

        name, kinds = "wse_fold_entries_" + "_".join(map(str, element_types)), [pointer.type for pointer in pointers]
        function = internal_function(builder.module, name, kinds, 6, body, inlined=False)
        builder.call(function, [*pointers, T, F, stride, first, last, rows[0][1]])
        return context.get_dummy_value()

    return types.void(views, types.int64, entries, positions, visible_range, types.float32), generate


class _CodeGenerator:
    """Generator of LLVM code that updates a running softmax with the scores of cache entries.

    `fold_entries` calls the generated function. Its arguments are pointers to the operands, the
    positions and the scale, followed by T, F, stride, first, last, and the number of lanes (PEs of
    a block).
    """

    def __init__(self, builder: Any, element_types: tuple[Any, Any], arguments: Any) -> None:
        self.builder, (self.acc, self.act), self.f32 = builder, element_types, types.float32
        self.scores, self.values, self.maxima, self.sums, self.out, self.positions, scale, *numbers = arguments
        self.T, self.F, self.stride, self.first, self.last, self.lanes = numbers
        self.scale = splat(builder, builder.load(scale))
        self.weights = cgutils.alloca_once(builder, SINGLES, size=word(ENTRIES))
        self.lane, self.mask = word(0), None

    def fold(self) -> None:
        """Generate the code for all lanes (PEs of a block): full vectors, then the remainder."""
        builder = self.builder
        whole = builder.sub(self.lanes, builder.urem(self.lanes, word(WIDTH)))
        with short_loop(builder, word(0), whole, WIDTH) as self.lane:
            self.fold_vector()
        with builder.if_then(builder.icmp_unsigned("<", whole, self.lanes)):
            self.lane, self.mask = whole, rest_mask(builder, self.lanes)
            self.fold_vector()

    def fold_vector(self) -> None:
        """Generate the code that updates the running softmax of one vector of PEs.

        1. Compute the new maximum.
        2. Scale the running sum and the outputs by exp(old maximum - new maximum).
        3. Add the weights of the entries to the sum, and their weighted values to the outputs.
        """
        builder, zero = self.builder, word(0)
        old_maximum = self.load(self.maxima, zero, self.f32)
        top = cgutils.alloca_once_value(builder, old_maximum)  # 1
        with short_loop(builder, zero, self.T) as t, self.if_visible(t):
            score, old = self.score(t), builder.load(top)
            builder.store(builder.select(builder.fcmp_ordered(">", score, old), score, old), top)
        maximum = builder.load(top)
        self.store(maximum, self.maxima, zero, self.f32)
        first_entries = [minimum(builder, word(i), builder.sub(self.T, word(1))) for i in range(AT_ONCE - 1)]
        factor, *weights = self.exponentials(
            [old_maximum, *map(self.score, first_entries)], maximum
        )  # 2, and the start of 3
        self.store_weights(weights, first_entries)
        total = cgutils.alloca_once_value(builder, builder.fmul(self.load(self.sums, zero, self.f32), factor))
        with short_loop(builder, zero, self.F) as f:
            self.store(builder.fmul(self.load(self.out, f, self.acc), factor), self.out, f, self.acc)
        with short_loop(builder, zero, self.T, ENTRIES) as begin:  # 3
            end = minimum(builder, builder.add(begin, word(ENTRIES)), self.T)
            first = builder.select(builder.icmp_signed("==", begin, zero), word(AT_ONCE - 1), begin)
            with short_loop(builder, first, end, AT_ONCE) as t:
                entries = [minimum(builder, builder.add(t, word(i)), builder.sub(end, word(1))) for i in range(AT_ONCE)]
                weights = self.exponentials([self.score(entry) for entry in entries], maximum)
                self.store_weights(weights, [builder.sub(entry, begin) for entry in entries])
            with short_loop(builder, begin, end) as t, self.if_visible(t):
                weight = builder.load(builder.gep(self.weights, [builder.sub(t, begin)]))
                builder.store(builder.fadd(builder.load(total), weight), total)
            with short_loop(builder, zero, self.F, FEATURES) as f:
                last = builder.sub(self.F, word(1))
                self.add_weighted_values(
                    begin, end, [minimum(builder, builder.add(f, word(i)), last) for i in range(FEATURES)]
                )
        self.store(builder.load(total), self.sums, zero, self.f32)

    def exponentials(self, vectors: list[Any], maximum: Any) -> list[Any]:
        """Generate code for exp(vector - maximum) of each vector, with interleaved operations.

        An exponential is a long chain of dependent operations, and a processor looks only a few
        dozen instructions ahead, so it would stall if it computed the exponentials one by one.
        """
        builder = self.builder
        differences = [builder.fsub(vector, maximum) for vector in vectors]
        while len(differences) > 1:
            differences = [self.concatenated(*pair) for pair in zip(differences[::2], differences[1::2], strict=True)]
        found = exponential_of(builder, differences[0])
        return [self.shuffled(found, found, i * WIDTH, WIDTH) for i in range(len(vectors))]

    def concatenated(self, first_vector: Any, second_vector: Any) -> Any:
        """Return the concatenation of two vectors of equal length."""
        return self.shuffled(first_vector, second_vector, 0, 2 * first_vector.type.count)

    def shuffled(self, first_vector: Any, second_vector: Any, first: int, count: int) -> Any:
        """Generate a vector of ``count`` elements taken from two concatenated vectors.

        Args:
            first_vector, second_vector: Vectors to concatenate.
            first: Index of the first element of the result in the concatenation.
            count: Number of elements.
        """
        numbers = ir.Constant(ir.VectorType(LANE, count), list(range(first, first + count)))
        return self.builder.shuffle_vector(first_vector, second_vector, numbers)

    def store_weights(self, weights: list[Any], places: list[Any]) -> None:
        """Generate code that stores vectors of softmax weights in scratch memory.

        Args:
            weights: Vectors of weights.
            places: Index in scratch memory of each vector.
        """
        for weight, place in zip(weights, places, strict=True):
            self.builder.store(weight, self.builder.gep(self.weights, [place]))

    def add_weighted_values(self, begin: Any, end: Any, features: list[Any]) -> None:
        """Generate code that adds weighted values of some cache entries to the outputs.

        If a feature is listed several times, the same sum is computed several times from the same
        initial value, which does no harm.

        Args:
            begin, end: Index of the first entry, and the index after the last entry.
            features: Indices of the features whose outputs are updated.
        """
        builder = self.builder
        totals = [cgutils.alloca_once(builder, SINGLES) for _ in features]
        for f, total in zip(features, totals, strict=True):
            builder.store(self.load(self.out, f, self.acc), total)
        with short_loop(builder, begin, end) as t, self.if_visible(t):
            weight = builder.load(builder.gep(self.weights, [builder.sub(t, begin)]))
            for f, total in zip(features, totals, strict=True):
                value = self.load(self.values, builder.add(builder.mul(t, self.stride), f), self.act)
                new_sum = builder.fadd(builder.load(total), builder.fmul(weight, value))
                builder.store(widen_ir(builder, self.acc, narrow_ir(builder, self.acc, new_sum)), total)
        for f, total in zip(features, totals, strict=True):
            self.store(builder.load(total), self.out, f, self.acc)

    @contextmanager
    def if_visible(self, t: Any) -> Iterator[None]:
        """Enclose generated code that runs only if the token attends to cache entry ``t``."""
        builder = self.builder
        position = builder.sext(builder.load(builder.gep(self.positions, [t])), self.T.type)
        is_not_before, is_not_after = (
            builder.icmp_signed(">=", position, self.first),
            builder.icmp_signed("<=", position, self.last),
        )
        with builder.if_then(builder.and_(is_not_before, is_not_after)):
            yield

    def score(self, t: Any) -> Any:
        """Generate code that loads the attention scores of cache entry ``t`` and scales them.

        The generated code yields a vector with one score per lane (PE of a block).
        """
        return self.builder.fmul(self.load(self.scores, t, self.acc), self.scale)

    def at(self, rows: Any, row: Any) -> Any:
        """Return a pointer to the first lane of the current vector in a row.

        Args:
            rows: Pointer to the first row of an array with one element per lane (PE of a block).
            row: Index of the row.
        """
        return self.builder.gep(rows, [self.builder.add(self.builder.mul(row, self.lanes), self.lane)])

    def load(self, rows: Any, row: Any, element_type: Any) -> Any:
        """Generate code that loads one row of an array as float32, for the current vector of lanes.

        A row has one element per lane (PE of a block).

        Args:
            rows: Pointer to the first row of the array.
            row: Index of the row.
            element_type: Numba type of the stored elements.
        """
        return widen_ir(self.builder, element_type, load_lanes(self.builder, self.at(rows, row), self.mask))

    def store(self, value: Any, rows: Any, row: Any, element_type: Any) -> None:
        """Generate code that rounds values to the stored type and writes them to a row of an array.

        A row has one element per lane (PE of a block). Only the current vector of lanes is written.

        Args:
            value: float32 vector.
            rows: Pointer to the first row of the array.
            row: Index of the row.
            element_type: Numba type of the stored elements.
        """
        store_lanes(self.builder, narrow_ir(self.builder, element_type, value), self.at(rows, row), self.mask)


def _fold(
    views: Any, block: int, entries: FoldedEntries, positions: Any, visible_range: VisibleEntries, scale: Any
) -> None:
    """Add cache entries to the running softmax of a token and head, in plain Python.

    Entries that the token does not attend to are skipped. `fold_entries` lists the steps.

    Args:
        views: SRAM as accumulators, activations and float32 numbers, each [block, address, lane].
        block: Index of the block of PEs.
        entries: Addresses and sizes of the scores, the values and the running softmax.
        positions: Table of the position of each cache entry.
        visible_range: Positions that the token attends to, and the first entry's place in the
            table.
        scale: Factor applied to the scores.
    """
    acc, act, f32 = views
    scores, values, maximum, total, out, T, F, stride = entries
    row, col, first, last = visible_range
    visible_entries = [t for t in range(T) if first <= positions[row, col + t] <= last]
    for lane in range(acc.shape[2]):
        scaled = {t: widen(acc[block, scores + t, lane]) * scale for t in visible_entries}
        old_maximum = top = f32[block, maximum, lane]
        for score in scaled.values():
            top = score if score > top else top
        factor = exponential(old_maximum - top)
        f32[block, maximum, lane] = top
        f32[block, total, lane] *= factor
        for e in range(out, out + F):
            acc[block, e, lane] = narrow(widen(acc[block, e, lane]) * factor, acc[block, e, lane])
        for t, score in scaled.items():
            weight = np.float32(exponential(score - top))
            f32[block, total, lane] += weight
            for f in range(F):
                old, product = acc[block, out + f, lane], weight * widen(act[block, values + t * stride + f, lane])
                acc[block, out + f, lane] = narrow(widen(old) + product, old)


fold_entries: Any = _fold if config.DISABLE_JIT else _fold_compiled
"""Fold the scores of one token and head with T cache entries into its running softmax.

The call is ``fold_entries((acc, act, f32), block, entries, positions, visible_range, scale)``,
where ``entries`` is a `FoldedEntries` and ``visible_range`` a `VisibleEntries`. Entry t has the
score acc[scores + t] and the values act[values + t stride + f], f < F. The token sees it if
positions[row, col + t] is in [first, last]. In all lanes of a block, in this order:

1. f32[maximum] becomes the maximum of its old value and the visible scores times ``scale``
   (float32).
2. f32[total] and acc[out + f] are multiplied by exp(old maximum - new maximum).
3. Entry after entry, its weight exp(score - maximum) is added to f32[total], and its weighted
   values to acc[out + f].

Each product is rounded to float32, each sum to float32 and then to its type. Indices are not
checked against the size of the views.
"""
