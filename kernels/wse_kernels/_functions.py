"""Functions of a compiled kernel that are written as LLVM instructions, each made once a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wse_kernels._jit import ir

__all__ = ["WORD", "internal_function", "short_loop", "word"]

WORD = ir.IntType(64)
"""The type of indices."""


def word(number: int) -> Any:
    """Return a constant index."""
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
    """Return a function of a module, without a value.

    Args:
        module: The module; where it has a function of the name, that is it.
        name: The name.
        pointers: Types of the first arguments.
        numbers: Number of integer arguments after them.
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


@contextmanager
def short_loop(builder: Any, begin: Any, end: Any, step: int = 1) -> Iterator[Any]:
    """A loop of few turns over the indices from ``begin`` to below ``end``; LLVM writes out no turns of it.

    Yields the index. To write out turns that are seldom taken takes registers from the code around them.
    """
    before, head = builder.block, builder.append_basic_block("turn")
    body, after = builder.append_basic_block("turn_body"), builder.append_basic_block("turn_end")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(WORD)
    index.add_incoming(begin, before)
    builder.cbranch(builder.icmp_signed("<", index, end), body, after)
    builder.position_at_end(body)
    yield index
    index.add_incoming(builder.add(index, word(step)), builder.block)
    builder.branch(head).set_metadata("llvm.loop", _loop_metadata(builder.module))
    builder.position_at_end(after)


def _loop_metadata(module: Any) -> Any:
    """Metadata of a loop of which no turns are written out; its first operand is the metadata itself."""
    text = ir.MetaDataString(module, "llvm.loop.unroll.disable")
    loop = ir.MDValue(module, [module.add_metadata([text])], name=str(len(module.metadata)))
    loop.operands = (loop, *loop.operands)
    return loop
