"""Distribution of a range across all CPU cores: each core calls a function for one part of it.

Numba's own parallel loops compile their body five times: as a function, in a wrapper for NumPy's
loop signature, and again wherever these are linked. That takes three to ten times as long as the
body for one core. Here, threads of numba's pool call one compiled function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, launch_threads, types

WORD, STATUS, POINTER = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()

FIRST, LENGTH, PARTS, ERROR, ARGUMENTS = range(5)
"""Fields of the struct that all threads read.

These are the first index, the number of indices, the number of parts, whether a part has failed,
and the arguments of the function.
"""


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

        def call(part_builder: Any, context_struct: Any, bounds: list[Any]) -> Any:
            """Generate a call of the compiled function for one part of the index range.

            Args:
                part_builder: LLVM builder of the code that computes the part.
                context_struct: Pointer to the struct that contains the function's remaining
                    arguments.
                bounds: First index of the part, and the index after the last.

            Returns:
                Status of the call, which says whether it raised an error.
            """
            values = cgutils.unpack_tuple(
                part_builder, part_builder.load(_field(part_builder, context_struct, ARGUMENTS))
            )
            return context.call_conv.call_function(part_builder, callee, types.none, called.args, [*bounds, *values])[0]

        threads = builder.call(cgutils.get_or_insert_function(builder.module, _type(WORD), "get_num_threads"), [])
        context_struct = cgutils.alloca_once(builder, shared_type)
        fields = (args[1], builder.sub(args[2], args[1]), threads, ir.Constant(STATUS, 0), args[3])
        for index, value in enumerate(fields):
            builder.store(value, _field(builder, context_struct, index))
        _start(builder, _part_function(builder.module, shared_type, call), context_struct, threads)
        failed = cgutils.is_not_null(builder, builder.load(_field(builder, context_struct, ERROR)))
        with builder.if_then(failed, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))
        return context.get_dummy_value()

    return types.void(function, types.int64, types.int64, arguments), generate


def _part_function(module: Any, shared_type: Any, call: Callable[[Any, Any, list[Any]], Any]) -> Any:
    """Return the LLVM function that a thread calls to compute some parts of a range.

    The range of indices is divided into numbered parts of nearly equal size. Numba's thread pool
    requires the signature of a NumPy loop: (arrays, lengths, steps, data). Here, the value of the
    only array pointer is the index of the first part, and the length is the number of parts.

    Args:
        module: LLVM module that receives the function.
        shared_type: LLVM type of the struct that all threads read.
        call: Generates the call for one part, given a builder, the struct, and the bounds of the
            part. Returns the status of the call.
    """
    function_type = _type(ir.VoidType(), POINTER.as_pointer(), WORD.as_pointer(), WORD.as_pointer(), POINTER)
    function = ir.Function(module, function_type, module.get_unique_name("wse_part"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    context_struct = builder.bitcast(function.args[3], shared_type.as_pointer())
    first, length, parts = (builder.load(_field(builder, context_struct, i)) for i in (FIRST, LENGTH, PARTS))
    begin = builder.ptrtoint(builder.load(function.args[0]), WORD)
    end = builder.add(begin, builder.load(function.args[1]))
    bounds = [builder.add(first, builder.sdiv(builder.mul(length, part), parts)) for part in (begin, end)]
    status = call(builder, context_struct, bounds)
    with builder.if_then(status.is_error, likely=False):
        builder.store(ir.Constant(STATUS, 1), _field(builder, context_struct, ERROR))
    builder.ret_void()
    return function


def _start(builder: Any, function: Any, context_struct: Any, threads: Any) -> None:
    """Generate code that runs a function on numba's threads and waits until all parts are computed.

    Args:
        builder: LLVM builder.
        function: LLVM function from `_part_function`.
        context_struct: Pointer to the struct that all threads read.
        threads: Number of parts.
    """
    function_type = _type(ir.VoidType(), *[POINTER] * 5, *[WORD] * 3)
    run = cgutils.get_or_insert_function(builder.module, function_type, "numba_parallel_for")
    arrays, lengths, steps = (
        builder.bitcast(cgutils.alloca_once_value(builder, value), POINTER)
        for value in (ir.Constant(POINTER, None), threads, ir.Constant(WORD, 1))
    )
    data = builder.bitcast(context_struct, POINTER)
    no_inner_lengths, one_array = ir.Constant(WORD, 0), ir.Constant(WORD, 1)
    code = builder.bitcast(function, POINTER)
    builder.call(run, [code, arrays, lengths, steps, data, no_inner_lengths, one_array, threads])


def _field(builder: Any, struct: Any, index: int) -> Any:
    """Return a pointer to one field of a struct, given a pointer to the struct."""
    return builder.gep(struct, [ir.Constant(STATUS, 0), ir.Constant(STATUS, index)], inbounds=True)


def _type(returned: Any, *parameter_types: Any) -> Any:
    """Return the LLVM type of a function with a given result type and parameter types."""
    return ir.FunctionType(returned, parameter_types)


over_cores: Any = _over_cores if config.DISABLE_JIT else _over_cores_compiled
"""``over_cores(function, begin, end, arguments)``: compute the parts of a range on all cores.

Each part is a call ``function(first, last, *arguments)``. There is one part for each thread of
numba. Parts are contiguous, and their lengths differ by at most one. ``function`` must be a
`part_function` whose iterations write disjoint memory. IndexError is raised if any part raises an
error.
"""
