"""Sums along a line of PEs with the running one in registers: a program of few kinds of steps on an accumulator.

A chain of messages that add to what they meet reads and writes every sum in transit. Here the sum in transit stays in
registers, and is written where somebody reads it later.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse_kernels._elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels._functions import WORD, internal_function, short_loop, word
from wse_kernels._jit import cgutils, config, intrinsic, types
from wse_kernels._vectors import CACHE_LINE_BYTES, SINGLES, WIDTH, fetch, load_lanes, rest_mask, store_lanes

__all__ = ["ACCUMULATE", "KEEP_LARGER", "LOAD", "STEP_WORDS", "STORE", "STRIP", "accumulate"]

LOAD, ACCUMULATE, KEEP_LARGER, STORE = range(4)
"""Steps: the accumulator becomes what a PE has, has that added, becomes the larger of both, or goes to some PEs."""
STEP_WORDS: Final = 3
"""Words of a step: its kind, the first PE of the line, and the last."""

VECTORS: Final = 8
STRIP: Final = VECTORS * WIDTH
"""Values of each PE that are in registers at once."""
STEPS_AHEAD: Final = 4
"""Steps before which what they read is fetched."""


@intrinsic
def _accumulate_compiled(
    typing_context: Any, view: Any, program: Any, block: Any, per_row: Any, e: Any, first: Any, count: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, lanes = row_pointer(context, builder, view, args[0], args[2], args[4])
        height = cgutils.unpack_tuple(builder, context.make_array(view)(context, builder, args[0]).shape)[1]
        steps = context.make_array(program)(context, builder, args[1])
        length = cgutils.unpack_tuple(builder, steps.shape)[0]
        line_stride = builder.mul(builder.mul(args[3], height), lanes)
        strip = builder.gep(pointer, [args[5]])

        def body(inner: Any, *arguments: Any) -> None:
            _Code(inner, view.dtype, *arguments).run()

        function = internal_function(
            builder.module, f"wse_accumulate_{view.dtype}", [strip.type, steps.data.type], 3, body, inlined=False
        )
        builder.call(function, [strip, steps.data, line_stride, args[6], length])
        return context.get_dummy_value()

    return types.void(view, program, *(types.int64,) * 5), generate


class _Code:
    """Instructions of the function of a strip in the line's first PE, the steps, a PE's stride, values and steps."""

    def __init__(
        self, builder: Any, stored: Any, strip: Any, steps: Any, line_stride: Any, count: Any, length: Any
    ) -> None:  # fmt: skip
        self.builder, self.stored, self.strip, self.steps = builder, stored, strip, steps
        self.line_stride, self.count, self.length = line_stride, count, length

    def run(self) -> None:
        """A whole strip at once; what fills none vector by vector."""
        builder, count = self.builder, self.count
        is_whole = builder.icmp_signed("==", count, word(STRIP))
        with builder.if_else(is_whole) as (whole, part):
            with whole:
                self._walk(word(0), VECTORS, None)
            with part:
                vectors = builder.sub(count, builder.urem(count, word(WIDTH)))
                with short_loop(builder, word(0), vectors, WIDTH) as first:
                    self._walk(first, 1, None)
                with builder.if_then(builder.icmp_unsigned("<", vectors, count)):
                    self._walk(vectors, 1, rest_mask(builder, count))

    def _walk(self, first: Any, vectors: int, mask: Any) -> None:
        """All steps on so many vectors of a strip from its value ``first`` on."""
        builder = self.builder
        sums = [cgutils.alloca_once(builder, SINGLES) for _ in range(vectors)]
        with short_loop(builder, word(0), self.length) as step:
            kind, pe, last = (self._word(step, i) for i in range(STEP_WORDS))
            ahead = builder.add(step, word(STEPS_AHEAD))
            ahead = builder.select(builder.icmp_signed("<", ahead, self.length), ahead, step)
            for line in range(0, vectors * WIDTH * self.stored.bitwidth // 8, CACHE_LINE_BYTES):
                fetch(builder, self._place(self._word(ahead, 1), first), word(line))
            after = builder.append_basic_block("step_end")
            cases = [builder.append_basic_block("step") for _ in range(STORE + 1)]
            switch = builder.switch(kind, cases[STORE])
            for number in (LOAD, ACCUMULATE, KEEP_LARGER):
                switch.add_case(word(number), cases[number])
                builder.position_at_end(cases[number])
                for i, total in enumerate(sums):
                    place = builder.gep(self._place(pe, first), [word(i * WIDTH)])
                    value = widen_ir(builder, self.stored, load_lanes(builder, place, mask))
                    builder.store(self._combination(number, value, total), total)
                builder.branch(after)
            builder.position_at_end(cases[STORE])
            elements = [narrow_ir(builder, self.stored, builder.load(total)) for total in sums]
            with short_loop(builder, pe, builder.add(last, word(1))) as to:
                for i, element in enumerate(elements):
                    store_lanes(builder, element, builder.gep(self._place(to, first), [word(i * WIDTH)]), mask)
            builder.branch(after)
            builder.position_at_end(after)

    def _combination(self, kind: int, value: Any, total: Any) -> Any:
        builder = self.builder
        if kind == LOAD:
            return value
        before = builder.load(total)
        if kind == KEEP_LARGER:
            return builder.select(builder.fcmp_ordered(">", before, value), before, value)
        return widen_ir(builder, self.stored, narrow_ir(builder, self.stored, builder.fadd(value, before)))

    def _word(self, step: Any, i: int) -> Any:
        builder = self.builder
        at = builder.add(builder.mul(step, word(STEP_WORDS)), word(i))
        return builder.sext(builder.load(builder.gep(self.steps, [at])), WORD)

    def _place(self, pe: Any, first: Any) -> Any:
        """Pointer to a strip's value ``first`` in a PE."""
        return self.builder.gep(self.strip, [self.builder.add(self.builder.mul(pe, self.line_stride), first)])


def _accumulate(view: Any, program: Any, block: int, per_row: int, e: int, first: int, count: int) -> None:
    lanes = view.shape[2]
    for value in range(first, first + count):
        at, lane = e + value // lanes, value % lanes
        total = np.float32(0.0)
        for kind, pe, last in program:
            stored = view[block + pe * per_row, at, lane]
            if kind == STORE:
                for to in range(pe, last + 1):
                    view[block + to * per_row, at, lane] = narrow(total, stored)
            elif kind == LOAD:
                total = widen(stored)
            elif kind == ACCUMULATE:
                total = widen(narrow(widen(stored) + total, stored))
            elif not total > widen(stored):
                total = widen(stored)


accumulate: Any = _accumulate if config.DISABLE_JIT else _accumulate_compiled
"""``accumulate(view, program, block, per_row, e, first, count)``: the steps of a program, PEs being blocks.

PE p of the line is, lane by lane, block ``block + p per_row``; the values are ``count``, STRIP at most, from value
``first`` of rows ``[block, e:, :]`` on. ``program`` int32 ``[steps, STEP_WORDS]``. Sums are rounded to float32 and to
the element type. Rows outside the view are not noticed: the caller vouches for them.
"""
