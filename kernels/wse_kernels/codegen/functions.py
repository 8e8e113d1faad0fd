"""Helpers to write parts of a compiled kernel as LLVM functions, each defined once per module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wse_kernels.codegen.jit import ir

WORD = ir.IntType(64)
"""LLVM type of indices."""


def word(number: int) -> Any:
    """Return an index as an LLVM constant."""
    return ir.Constant(WORD, number)


def internal_function(
    module: Any,
    name: str,
    pointers: Sequence[Any],
    numbers: int,
    body: Callable[..., None],
    *,
    no_alias: bool = True,
    inlined: bool = True,
) -> Any:
    """Return the LLVM function with this name, defining it if the module does not contain it yet.

    The LLVM function returns no value.

    Args:
        module: LLVM module.
        name: Name of the function within the module.
        pointers: LLVM types of the first parameters, which are pointers.
        numbers: Number of integer parameters after the pointers.
        body: Python function that generates the instructions, given a builder and the parameters.
        no_alias: Whether the pointers refer to non-overlapping memory, which the compiler cannot
            determine by itself.
        inlined: Whether LLVM may inline the function.
    """
    if name in module.globals:
        return module.globals[name]
    function_type = ir.FunctionType(ir.VoidType(), [*pointers, *[WORD] * numbers])
    function = ir.Function(module, function_type, name)
    function.linkage = "internal"
    if not inlined:
        function.attributes.add("noinline")
    for pointer in function.args[: len(pointers)] if no_alias else ():
        pointer.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    body(builder, *function.args)
    builder.ret_void()
    return function


@contextmanager
def short_loop(builder: Any, begin: Any, end: Any, step: int = 1) -> Iterator[Any]:
    """Generate a loop over indices from ``begin`` up to but excluding ``end`` that is not unrolled.

    The code generated in the ``with`` block is the loop's body. Use it for loops with few
    iterations, because unrolled code that rarely runs would take registers from the surrounding
    code.

    Yields:
        The loop index.
    """
    entry_block, head_block = builder.block, builder.append_basic_block("loop")
    body_block, exit_block = builder.append_basic_block("loop_body"), builder.append_basic_block("loop_end")
    builder.branch(head_block)
    builder.position_at_end(head_block)
    index = builder.phi(WORD)
    index.add_incoming(begin, entry_block)
    builder.cbranch(builder.icmp_signed("<", index, end), body_block, exit_block)
    builder.position_at_end(body_block)
    yield index
    index.add_incoming(builder.add(index, word(step)), builder.block)
    builder.branch(head_block).set_metadata("llvm.loop", _loop_metadata(builder.module))
    builder.position_at_end(exit_block)


def _loop_metadata(module: Any) -> Any:
    """Return LLVM metadata that forbids unrolling a loop.

    LLVM requires the metadata to be its own first operand.
    """
    text = ir.MetaDataString(module, "llvm.loop.unroll.disable")
    loop = ir.MDValue(module, [module.add_metadata([text])], name=str(len(module.metadata)))
    loop.operands = (loop, *loop.operands)
    return loop


def minimum(builder: Any, first: Any, second: Any) -> Any:
    """Generate LLVM instructions for the minimum of two signed integers."""
    return builder.select(builder.icmp_signed("<", first, second), first, second)
