"""Calling a function for the parts of a range, one part on each core.

Numba's own parallel loops compile their body five times over (as a function, in a wrapper of NumPy's convention, and
again wherever these are linked), which takes three to ten times as long as the body for one core. Here threads of
numba's pool call one compiled function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wse_kernels._jit import cgutils, config, intrinsic, ir, launch_threads, types

__all__ = ["over_cores"]

WORD, STATUS, POINTER = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()

FIRST, LENGTH, PARTS, ERROR, ARGUMENTS = range(5)
"""Fields of what all threads read: the first index, how many there are, in how many parts; what they leave behind."""


def _over_cores(function: Callable[..., None], begin: int, end: int, arguments: tuple[Any, ...]) -> None:
    function(begin, end, *arguments)


@intrinsic
def _over_cores_compiled(typing_context: Any, function: Any, begin: Any, end: Any, arguments: Any) -> Any:
    launch_threads()
    called = typing_context.resolve_function_type(function, (types.int64, types.int64, *arguments.types), {})

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        compiled = function.dispatcher.get_compile_result(called)
        context.active_code_library.add_linking_library(compiled.library)
        callee = context.declare_function(builder.module, compiled.fndesc)
        shared_type = ir.LiteralStructType([WORD, WORD, WORD, STATUS, args[3].type])

        def call(inner: Any, shared: Any, bounds: list[Any]) -> Any:
            values = cgutils.unpack_tuple(inner, inner.load(_field(inner, shared, ARGUMENTS)))
            return context.call_conv.call_function(inner, callee, types.none, called.args, [*bounds, *values])[0]

        threads = builder.call(cgutils.get_or_insert_function(builder.module, _type(WORD), "get_num_threads"), [])
        shared = cgutils.alloca_once(builder, shared_type)
        fields = (args[1], builder.sub(args[2], args[1]), threads, ir.Constant(STATUS, 0), args[3])
        for index, value in enumerate(fields):
            builder.store(value, _field(builder, shared, index))
        _start(builder, _part_function(builder.module, shared_type, call), shared, threads)
        failed = cgutils.is_not_null(builder, builder.load(_field(builder, shared, ERROR)))
        with builder.if_then(failed, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))
        return context.get_dummy_value()

    return types.void(function, types.int64, types.int64, arguments), generate


def _part_function(module: Any, shared_type: Any, call: Callable[[Any, Any, list[Any]], Any]) -> Any:
    """Return the function that a thread calls with the index of a part, and with how many parts it is to do.

    Its signature is that of a loop of NumPy: (arrays, lengths, steps, data). The address of the only array is the
    index: there is nothing to be read there.
    """
    kind = _type(ir.VoidType(), POINTER.as_pointer(), WORD.as_pointer(), WORD.as_pointer(), POINTER)
    function = ir.Function(module, kind, module.get_unique_name("wse_part"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    shared = builder.bitcast(function.args[3], shared_type.as_pointer())
    first, length, parts = (builder.load(_field(builder, shared, i)) for i in (FIRST, LENGTH, PARTS))
    begin = builder.ptrtoint(builder.load(function.args[0]), WORD)
    end = builder.add(begin, builder.load(function.args[1]))
    bounds = [builder.add(first, builder.sdiv(builder.mul(length, part), parts)) for part in (begin, end)]
    status = call(builder, shared, bounds)
    with builder.if_then(status.is_error, likely=False):
        builder.store(ir.Constant(STATUS, 1), _field(builder, shared, ERROR))
    builder.ret_void()
    return function


def _start(builder: Any, function: Any, shared: Any, threads: Any) -> None:
    """Have numba's threads call ``function`` for as many parts as there are ``threads``, and wait for them."""
    kind = _type(ir.VoidType(), *[POINTER] * 5, *[WORD] * 3)
    run = cgutils.get_or_insert_function(builder.module, kind, "numba_parallel_for")
    arrays, lengths, steps = (
        builder.bitcast(cgutils.alloca_once_value(builder, value), POINTER)
        for value in (ir.Constant(POINTER, None), threads, ir.Constant(WORD, 1))
    )
    data = builder.bitcast(shared, POINTER)
    no_inner_lengths, one_array = ir.Constant(WORD, 0), ir.Constant(WORD, 1)
    code = builder.bitcast(function, POINTER)
    builder.call(run, [code, arrays, lengths, steps, data, no_inner_lengths, one_array, threads])


def _field(builder: Any, struct: Any, index: int) -> Any:
    """Pointer to a field of what ``struct`` points to."""
    return builder.gep(struct, [ir.Constant(STATUS, 0), ir.Constant(STATUS, index)], inbounds=True)


def _type(returned: Any, *taken: Any) -> Any:
    return ir.FunctionType(returned, taken)


over_cores: Any = _over_cores if config.DISABLE_JIT else _over_cores_compiled
"""``over_cores(function, begin, end, arguments)``: ``function(first, last, *arguments)`` for the parts of a range.

Parts are contiguous and as long as each other, up to one; there is one for each thread of numba. ``function`` is a
`part_function`, whose iterations write disjoint memory. Raises IndexError where one raises an error.
"""
