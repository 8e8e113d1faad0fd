"""Read several operands of a kernel at once, as a tuple or a named tuple."""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, types


def _load_words(context: Any, builder: Any, words: Any, value: Any, first: int, count: int) -> list[Any]:
    """Generate loads of ``count`` consecutive elements of a one-dimensional array.

    Args:
        context, builder: Numba target context and LLVM builder.
        words, value: Numba type and LLVM value of the array.
        first: Index of the first element.
        count: Number of elements.
    """
    array, word = context.make_array(words)(context, builder, value), ir.IntType(64)
    if context.enable_boundscheck:
        (length,) = cgutils.unpack_tuple(builder, array.shape)
        cgutils.do_boundscheck(context, builder, ir.Constant(word, first + count - 1), length)
    return [builder.load(builder.gep(array.data, [ir.Constant(word, first + i)])) for i in range(count)]


@intrinsic(prefer_literal=True)
def _words_compiled(typing_context: Any, words: Any, first: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded_words = _load_words(context, builder, words, args[0], first.literal_value, count.literal_value)
        return context.make_tuple(builder, signature.return_type, loaded_words)

    tuple_type: Any = types.UniTuple
    return tuple_type(words.dtype, count.literal_value)(words, first, count), generate


@intrinsic(prefer_literal=True)
def _group_compiled(typing_context: Any, words: Any, first: Any, group: Any) -> Any:
    count = len(group.instance_class._fields)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded_words = _load_words(context, builder, words, args[0], first.literal_value, count)
        return context.make_tuple(builder, signature.return_type, loaded_words)

    tuple_type: Any = types.NamedUniTuple
    return tuple_type(words.dtype, count, group.instance_class)(words, first, group), generate


def _words(words: Any, first: int, count: int) -> tuple[Any, ...]:
    return tuple(words[first : first + count])


def _group(words: Any, first: int, group: Any) -> Any:
    return group(*words[first : first + len(group._fields)])


words_of: Any = _words if config.DISABLE_JIT else _words_compiled
"""``words_of(words, first, count)``: ``count`` words of a contiguous array, as a tuple.

``first``, the index of the first word, and ``count`` are literal numbers. Numba generates some
thirty instructions for each ``words[i]``, which takes longer to compile than many kernels.
"""

group_of: Any = _group if config.DISABLE_JIT else _group_compiled
"""``group_of(words, first, group)``: words of a contiguous array, as a named tuple.

``first``, the index of the first word, is a literal number. ``group`` is the class of the tuple.
"""
