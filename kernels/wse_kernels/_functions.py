"""Functions of a compiled kernel that are written as LLVM instructions, each made once a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wse_kernels._jit import ir

__all__ = ["WORD", "internal_function", "word"]

WORD = ir.IntType(64)
"""The type of indices."""


def word(number: int) -> Any:
    """A constant index."""
    return ir.Constant(WORD, number)


def internal_function(
    module: Any,
    name: str,
    pointers: Sequence[Any],
    numbers: int,
    body: Callable[..., None],
    *,
    apart: bool = True,
    inlined: bool = True,
) -> Any:
    """A function of a module, without a value.

    Args:
        module: The module; where it has a function of the name, that is it.
        name: The name.
        pointers: Types of the first arguments.
        numbers: How many integers follow them.
        body: Makes the instructions, of a builder and the arguments.
        apart: Whether what pointers lead to does not overlap, which the compiler cannot see.
        inlined: Whether LLVM may write it out where it is called.
    """
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [*pointers, *[WORD] * numbers])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    if not inlined:
        function.attributes.add("noinline")
    for pointer in function.args[: len(pointers)] if apart else ():
        pointer.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    body(builder, *function.args)
    builder.ret_void()
    return function
