"""Execution of messages between PEs of a mesh row on transposed words, with sums in registers.

Each message of a chain of sums adds to the result of the message before. That result is still in
registers, so a sum waits for the one before it, but not for a write to memory and a read from it.
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels.codegen.elements import narrow, narrow_ir, widen, widen_ir
from wse_kernels.codegen.functions import WORD, internal_function, short_loop, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, types
from wse_kernels.codegen.vectors import SINGLES
from wse_kernels.operands.arrivals import ADD, DROP, MULTICAST

AT_ONCE: Final = (4, 2, 1)
"""Numbers of vectors of each PE that are kept in registers at once.

As many vectors as possible are processed four at a time, then two, then one.
"""
MESSAGE_WORDS: Final = 3
NOWHERE: Final = -1
"""Value of the index of the PE whose words are in registers if the registers are empty."""


@intrinsic
def _carry_compiled(
    typing_context: Any, words: Any, cols: Any, count: Any, messages: Any, first: Any, end: Any, view: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = builder.bitcast(context.make_array(words)(context, builder, args[0]).data, SINGLES.as_pointer())
        table, element_type = context.make_array(messages)(context, builder, args[3]).data, view.dtype

        def body(body_builder: Any, *arguments: Any) -> None:
            _CodeGenerator(body_builder, element_type, *arguments).run()

        function = internal_function(
            builder.module, f"wse_carry_words_{element_type}", [data.type, table.type], 4, body, inlined=False
        )
        builder.call(function, [data, table, args[1], args[2], *args[4:6]])
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64, messages, types.int64, types.int64, view), generate


class _CodeGenerator:
    """Generator of LLVM code that executes messages between the PEs of a mesh row.

    Sums stay in registers from one message to the next. `carry_words` calls the generated function
    with these arguments: the transposed words of the PEs, the message table, the number of PEs, the
    number of vectors per PE, and the range of messages to execute.
    """

    def __init__(
        self, builder: Any, element_type: Any, words: Any, messages: Any, cols: Any, count: Any, first: Any, end: Any
    ) -> None:  # fmt: skip
        self.builder, self.element_type, self.words, self.messages = builder, element_type, words, messages
        self.cols, self.count, self.first, self.end = cols, count, first, end

    def run(self) -> None:
        """Generate the loops that execute the messages for all vectors of words.

        Four vectors are processed at a time while possible, then two, then one.
        """
        builder, first_vector = self.builder, word(0)
        for vectors in AT_ONCE:
            left = builder.sub(self.count, first_vector)
            end_vector = builder.add(first_vector, builder.sub(left, builder.urem(left, word(vectors))))
            with short_loop(builder, first_vector, end_vector, vectors) as vector:
                self._carry(vector, vectors)
            first_vector = end_vector

    def _carry(self, vector: Any, vectors: int) -> None:
        """Generate code that executes all messages on ``vectors`` vectors of each PE.

        The registers always contain the words of one PE: the target of the last message if that
        message added words, otherwise its source. For each message:

        1. If the registers do not contain the words of the source, load them. Exception: if the
           message adds words and the registers contain the words of its target, no load is needed.
        2. If the message adds words, add the words of its other PE (source or target) to the
           registers, and store the sums at the target.
        3. Otherwise, store the words at the target or, for a multicast, at all PEs from source to
           target. A dropped message stores nothing.
        """
        builder = self.builder
        pe_in_registers = cgutils.alloca_once_value(builder, word(NOWHERE))
        builder.store(word(NOWHERE), pe_in_registers)
        totals = [cgutils.alloca_once(builder, SINGLES) for _ in range(vectors)]
        bases = [
            builder.gep(self.words, [builder.mul(builder.add(vector, word(i)), self.cols)]) for i in range(vectors)
        ]
        with short_loop(builder, self.first, self.end) as message:
            source, target, arrival = (self._word(message, i) for i in range(MESSAGE_WORDS))
            # 1. Load the words of the source if needed.
            loaded_pe = builder.load(pe_in_registers)
            adds = builder.icmp_signed("==", arrival, word(ADD))
            is_at_target = builder.and_(adds, builder.icmp_signed("==", loaded_pe, target))
            is_not_source = builder.icmp_signed("!=", loaded_pe, source)
            with builder.if_then(builder.and_(is_not_source, builder.not_(is_at_target))):
                for base, total in zip(bases, totals, strict=True):
                    builder.store(self._load(base, source), total)
            with builder.if_else(adds) as (sums, otherwise):
                with sums:  # 2
                    self._add(bases, totals, builder.select(is_at_target, source, target), target)
                    builder.store(target, pe_in_registers)
                with otherwise:  # 3
                    builder.store(source, pe_in_registers)
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

    def _add(self, bases: list[Any], totals: list[Any], addend_pe: Any, target: Any) -> None:
        """Generate code that adds the words of a PE to the words in registers and stores the sums.

        Args:
            bases: Pointers to the vectors of PE 0. Each is followed by the other PEs' vectors.
            totals: Pointers to the words in registers, one for each base pointer.
            addend_pe: PE whose words are added.
            target: PE at which the sums are stored.
        """
        builder, values = self.builder, []
        for base, total in zip(bases, totals, strict=True):
            value = builder.fadd(self._load(base, addend_pe), builder.load(total))
            values.append(widen_ir(builder, self.element_type, narrow_ir(builder, self.element_type, value)))
        for value, total in zip(values, totals, strict=True):
            builder.store(value, total)
        self._store(bases, values, target)

    def _load(self, base: Any, col: Any) -> Any:
        """Generate code that loads one vector of words of the PE in column ``col``."""
        return self.builder.load(self.builder.gep(base, [col]))

    def _store(self, bases: list[Any], values: list[Any], col: Any) -> None:
        """Generate code that stores vectors of words at the PE in column ``col``.

        Args:
            bases: Pointers to the vectors of PE 0. Each is followed by the other PEs' vectors.
            values: Vectors to store, one for each base pointer.
            col: Column of the PE.
        """
        for base, value in zip(bases, values, strict=True):
            self.builder.store(value, self.builder.gep(base, [col]))

    def _word(self, message: Any, i: int) -> Any:
        """Generate code that loads word ``i`` of a message: its source, target or arrival code.

        The arrival code says what the target does with the words of the message, for example add
        them.
        """
        builder = self.builder
        at = builder.add(builder.mul(message, word(MESSAGE_WORDS)), word(i))
        return builder.sext(builder.load(builder.gep(self.messages, [at])), WORD)


def _carry(words: Any, cols: int, count: int, messages: Any, first: int, end: int, view: Any) -> None:
    """Execute messages between PEs of a mesh row in plain Python. See `carry_words`.

    Args:
        words: Transposed words of the PEs: vector v of PE c is ``words[v * cols + c]``.
        cols: Number of PEs.
        count: Number of vectors per PE.
        messages: int32 [messages, 3] with source, target and arrival code of each message. The
            arrival code says what the target does with the words, for example add them.
        first, end: Range of messages to execute.
        view: Array whose element type determines how the sums are rounded.
    """
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
"""``carry_words(words, cols, count, messages, first, end, view)``: execute messages in order.

``messages`` is an int32 array ``[m, 3]`` with the source, target and arrival code of each message.
Messages ``first`` to ``end`` - 1 are executed: they add, replace, multicast, or are dropped. The
words of PE c (of ``cols`` PEs) are the vectors ``words[v cols + c]``, v < ``count``. Sums are
rounded to the element type of ``view``.
"""
