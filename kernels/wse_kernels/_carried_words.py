"""Messages between PEs of a mesh row whose words are transposed; words on their way stay in registers.

Each message of a chain of sums adds to the result of the message before. That result is still in registers, so a sum
waits for the one before it, but not for a write to memory and a read from it.
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels._arrivals import ADD, DROP, MULTICAST
from wse_kernels._elements import narrow, narrow_ir, widen, widen_ir
from wse_kernels._functions import WORD, internal_function, short_loop, word
from wse_kernels._jit import cgutils, config, intrinsic, types
from wse_kernels._vectors import SINGLES

__all__ = ["carry_words"]

AT_ONCE: Final = (4, 2, 1)
"""Vectors of each PE that are in registers at once: as many as there are left."""
MESSAGE_WORDS: Final = 3
NOWHERE: Final = -1
"""The PE whose words are in registers, where these are nobody's."""


@intrinsic
def _carry_compiled(
    typing_context: Any, words: Any, cols: Any, count: Any, messages: Any, first: Any, end: Any, view: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = builder.bitcast(context.make_array(words)(context, builder, args[0]).data, SINGLES.as_pointer())
        table, stored = context.make_array(messages)(context, builder, args[3]).data, view.dtype

        def body(inner: Any, *arguments: Any) -> None:
            _Code(inner, stored, *arguments).run()

        function = internal_function(
            builder.module, f"wse_carry_words_{stored}", [data.type, table.type], 4, body, inlined=False
        )
        builder.call(function, [data, table, args[1], args[2], *args[4:6]])
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64, messages, types.int64, types.int64, view), generate


class _Code:
    """Instructions of the function of words and messages, PEs, vectors of each, and the messages to execute."""

    def __init__(
        self, builder: Any, stored: Any, words: Any, messages: Any, cols: Any, count: Any, first: Any, end: Any
    ) -> None:  # fmt: skip
        self.builder, self.stored, self.words, self.messages = builder, stored, words, messages
        self.cols, self.count, self.first, self.end = cols, count, first, end

    def run(self) -> None:
        """All vectors: four at a time as far as they go, then two, then one."""
        builder, done = self.builder, word(0)
        for vectors in AT_ONCE:
            left = builder.sub(self.count, done)
            until = builder.add(done, builder.sub(left, builder.urem(left, word(vectors))))
            with short_loop(builder, done, until, vectors) as vector:
                self._carry(vector, vectors)
            done = until

    def _carry(self, vector: Any, vectors: int) -> None:
        """All messages of so many vectors of each PE."""
        builder = self.builder
        held = cgutils.alloca_once_value(builder, word(NOWHERE))
        builder.store(word(NOWHERE), held)
        totals = [cgutils.alloca_once(builder, SINGLES) for _ in range(vectors)]
        bases = [
            builder.gep(self.words, [builder.mul(builder.add(vector, word(i)), self.cols)]) for i in range(vectors)
        ]
        with short_loop(builder, self.first, self.end) as message:
            source, target, arrival = (self._word(message, i) for i in range(MESSAGE_WORDS))
            before = builder.load(held)
            adds = builder.icmp_signed("==", arrival, word(ADD))
            meets = builder.and_(adds, builder.icmp_signed("==", before, target))
            takes = builder.icmp_signed("!=", before, source)
            with builder.if_then(builder.and_(takes, builder.not_(meets))):
                for base, total in zip(bases, totals, strict=True):
                    builder.store(self._load(base, source), total)
            with builder.if_else(adds) as (sums, others):
                with sums:
                    self._add(bases, totals, builder.select(meets, source, target), target)
                    builder.store(target, held)
                with others:
                    builder.store(source, held)
                    is_multicast = builder.icmp_signed("==", arrival, word(MULTICAST))
                    is_dropped = builder.icmp_signed("==", arrival, word(DROP))
                    low = builder.select(builder.icmp_signed("<", source, target), source, target)
                    high = builder.select(builder.icmp_signed("<", source, target), target, source)
                    begin = builder.select(is_multicast, low, target)
                    last = builder.select(is_multicast, high, target)
                    end = builder.select(is_dropped, begin, builder.add(last, word(1)))
                    values = [builder.load(total) for total in totals]
                    with short_loop(builder, begin, end) as col:
                        self._store(bases, values, col)

    def _add(self, bases: list[Any], totals: list[Any], other: Any, target: Any) -> None:
        """Add what a PE has to the sums, and put these where they arrive."""
        builder, values = self.builder, []
        for base, total in zip(bases, totals, strict=True):
            value = builder.fadd(self._load(base, other), builder.load(total))
            values.append(widen_ir(builder, self.stored, narrow_ir(builder, self.stored, value)))
        for value, total in zip(values, totals, strict=True):
            builder.store(value, total)
        self._store(bases, values, target)

    def _load(self, base: Any, col: Any) -> Any:
        return self.builder.load(self.builder.gep(base, [col]))

    def _store(self, bases: list[Any], values: list[Any], col: Any) -> None:
        for base, value in zip(bases, values, strict=True):
            self.builder.store(value, self.builder.gep(base, [col]))

    def _word(self, message: Any, i: int) -> Any:
        builder = self.builder
        at = builder.add(builder.mul(message, word(MESSAGE_WORDS)), word(i))
        return builder.sext(builder.load(builder.gep(self.messages, [at])), WORD)


def _carry(words: Any, cols: int, count: int, messages: Any, first: int, end: int, view: Any) -> None:
    for source, target, arrival in messages[first:end].tolist():
        for base in range(0, count * cols, cols):
            if arrival == ADD:
                total = words[base + target] + words[base + source]
                words[base + target] = [widen(narrow(value, view[0, 0, 0])) for value in total]
            elif arrival == MULTICAST:
                words[base + min(source, target) : base + max(source, target) + 1] = words[base + source].copy()
            elif arrival != DROP:
                words[base + target] = words[base + source]


carry_words: Any = _carry if config.DISABLE_JIT else _carry_compiled
"""``carry_words(words, cols, count, messages, first, end, view)``: messages ``first`` to ``end``, in their order.

``messages`` int32 ``[m, 3]`` are (source, target, arrival): sums, copies, multicasts, or dropped. PE c of ``cols`` has
the vectors ``words[v cols + c]``, v < ``count``; sums are rounded to the element type of ``view``.
"""
