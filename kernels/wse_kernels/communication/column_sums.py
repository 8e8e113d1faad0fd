"""Transfer kernel for messages along columns that send and receive at the same address.

A chain of messages that add at each PE would write the running sum to memory and read it again at
every PE. Here it stays in registers, and is written only where it is read later.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wse_kernels.codegen.elements import narrow, narrow_ir, row_pointer, widen, widen_ir
from wse_kernels.codegen.functions import WORD, internal_function, short_loop, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, prange, types
from wse_kernels.codegen.vectors import CACHE_LINE_BYTES, SINGLES, WIDTH, fetch, load_lanes, rest_mask, store_lanes

LOAD, ACCUMULATE, KEEP_LARGER, STORE = range(4)
"""Kinds of steps on the accumulator.

A step loads the value of a PE, adds it, keeps the larger of both, or stores the accumulator in some
PEs.
"""
STEP_WORDS: Final = 3
"""Words of a step: its kind, the first PE of the line, and the last PE."""

VECTORS: Final = 8
STRIP: Final = VECTORS * WIDTH
"""Number of values of each PE that are in registers at once."""
STEPS_AHEAD: Final = 4
"""How many steps ahead the values that a step reads are prefetched."""


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

        def body(body_builder: Any, *arguments: Any) -> None:
            _CodeGenerator(body_builder, view.dtype, *arguments).run()

        function = internal_function(
            builder.module, f"wse_accumulate_{view.dtype}", [strip.type, steps.data.type], 3, body, inlined=False
        )
        builder.call(function, [strip, steps.data, line_stride, args[6], length])
        return context.get_dummy_value()

    return types.void(view, program, *(types.int64,) * 5), generate


class _CodeGenerator:
    """Generator of LLVM code that sums values over a row or column of PEs.

    Running sums stay in registers. `accumulate` calls the generated function with these arguments:
    a pointer to the first PE's values, the list of steps, the stride between two PEs, the
    number of values per PE, and the number of steps.
    """

    def __init__(
        self, builder: Any, element_type: Any, strip: Any, steps: Any, line_stride: Any, count: Any, length: Any
    ) -> None:  # fmt: skip
        self.builder, self.element_type, self.strip, self.steps = builder, element_type, strip, steps
        self.line_stride, self.count, self.length = line_stride, count, length

    def run(self) -> None:
        """Generate the code that sums up to STRIP consecutive values of each PE over all PEs.

        If there are exactly STRIP values, all running sums are in registers at the same time. Fewer
        values are processed one vector at a time.
        """
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
        """Generate the loop that executes the list of steps on some vectors of values.

        A step is an operation on the running sums and one PE or, for a store, a range of PEs. An
        iteration executes one step:

        1. Prefetch the values of a later step.
        2. If the step reads a PE, load its values, add them, or keep the maximum.
        3. Otherwise, store the running sums in every PE of the range.

        Args:
            first: Index of the first value.
            vectors: Number of vectors to process at once.
            mask: LLVM mask of the valid values if the vector is incomplete, else None.
        """
        builder = self.builder
        sums = [cgutils.alloca_once(builder, SINGLES) for _ in range(vectors)]
        with short_loop(builder, word(0), self.length) as step:
            kind, pe, last = (self._word(step, i) for i in range(STEP_WORDS))
            # 1. Prefetch.
            prefetch_step = builder.add(step, word(STEPS_AHEAD))
            prefetch_step = builder.select(builder.icmp_signed("<", prefetch_step, self.length), prefetch_step, step)
            for line in range(0, vectors * WIDTH * self.element_type.bitwidth // 8, CACHE_LINE_BYTES):
                fetch(builder, self._place(self._word(prefetch_step, 1), first), word(line))
            exit_block = builder.append_basic_block("step_end")
            # 2. Load, add or compare.
            cases = [builder.append_basic_block("step") for _ in range(STORE + 1)]
            switch = builder.switch(kind, cases[STORE])
            for number in (LOAD, ACCUMULATE, KEEP_LARGER):
                switch.add_case(word(number), cases[number])
                builder.position_at_end(cases[number])
                for i, total in enumerate(sums):
                    place = builder.gep(self._place(pe, first), [word(i * WIDTH)])
                    value = widen_ir(builder, self.element_type, load_lanes(builder, place, mask))
                    builder.store(self._combination(number, value, total), total)
                builder.branch(exit_block)
            # 3. Store.
            builder.position_at_end(cases[STORE])
            elements = [narrow_ir(builder, self.element_type, builder.load(total)) for total in sums]
            with short_loop(builder, pe, builder.add(last, word(1))) as to:
                for i, element in enumerate(elements):
                    store_lanes(builder, element, builder.gep(self._place(to, first), [word(i * WIDTH)]), mask)
            builder.branch(exit_block)
            builder.position_at_end(exit_block)

    def _combination(self, kind: int, value: Any, total: Any) -> Any:
        """Return the value of the running sum after one step, as an LLVM value.

        Args:
            kind: LOAD to return ``value``, ACCUMULATE to add it to the sum, or KEEP_LARGER to
                return the larger of the two.
            value: Value read from the PE of the step.
            total: Pointer to the running sum.
        """
        builder = self.builder
        if kind == LOAD:
            return value
        old_total = builder.load(total)
        if kind == KEEP_LARGER:
            return builder.select(builder.fcmp_ordered(">", old_total, value), old_total, value)
        return widen_ir(
            builder, self.element_type, narrow_ir(builder, self.element_type, builder.fadd(value, old_total))
        )

    def _word(self, step: Any, i: int) -> Any:
        """Generate code that loads one word of a step: its kind (0), first PE (1) or last PE (2).

        Args:
            step: Index of the step.
            i: Index of the word in the step.
        """
        builder = self.builder
        at = builder.add(builder.mul(step, word(STEP_WORDS)), word(i))
        return builder.sext(builder.load(builder.gep(self.steps, [at])), WORD)

    def _place(self, pe: Any, first: Any) -> Any:
        """Return a pointer to the value with index ``first`` of the PE with index ``pe``."""
        return self.builder.gep(self.strip, [self.builder.add(self.builder.mul(pe, self.line_stride), first)])


def _accumulate(view: Any, program: Any, block: int, per_row: int, e: int, first: int, count: int) -> None:
    """Sum values over a row or column of PEs by executing a list of steps for each value.

    This is the plain Python version of `accumulate`, used when Numba is disabled.

    Args:
        view: SRAM of the PEs, ``[block, address, PE of block]``.
        program: int32 [steps, 3]. Each step is a kind (load, add, maximum, store), the first PE and
            the last PE.
        block: Block of PE 0.
        per_row: PE stride, in blocks.
        e: Address of the first value.
        first, count: Index of the first value to sum, and the number of values.
    """
    lanes = view.shape[2]
    for value in range(first, first + count):
        at, lane = e + value // lanes, value % lanes
        total = np.float32(0.0)
        for kind, pe, last in program:
            element = view[block + pe * per_row, at, lane]
            if kind == STORE:
                for to in range(pe, last + 1):
                    view[block + to * per_row, at, lane] = narrow(total, element)
            elif kind == LOAD:
                total = widen(element)
            elif kind == ACCUMULATE:
                total = widen(narrow(widen(element) + total, element))
            elif not total > widen(element):
                total = widen(element)


accumulate: Any = _accumulate if config.DISABLE_JIT else _accumulate_compiled
"""``accumulate(view, program, block, per_row, e, first, count)``: execute a program.

PE p of the line is block ``block + p per_row``, lane by lane. ``count`` values, at most STRIP, are
computed, from value ``first`` of rows ``[block, e:, :]`` on. ``program`` is int32
``[steps, STEP_WORDS]``. Sums are rounded to float32 and to the element type. Indices are not
checked against the size of the view.
"""


def along_columns_in_place(view: Any, program: Any, a: Any) -> None:
    """Execute in-place messages along mesh columns: PEs send and receive at the same SRAM address.

    The messages are given as a list of steps on running sums, which stay in registers. All columns
    execute the same steps.

    Args:
        view: SRAM of the region, ``[block, address, PE of block]``.
        program: int32 ``[steps, 3]``. Each step is a kind (load, add, maximum, store), the first
            mesh row and the last mesh row (`wse_kernels.communication.column_sums`).
        a: Operands: a[2] blocks per row, a[3] address, a[5] elements.
    """
    strips = (a[5] * view.shape[2] + STRIP - 1) // STRIP
    for job in prange(a[2] * strips):
        first = job % strips * STRIP
        accumulate(view, program, job // strips, a[2], a[3], first, min(STRIP, a[5] * view.shape[2] - first))
