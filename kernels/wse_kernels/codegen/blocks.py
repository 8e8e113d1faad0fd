"""Generation of compute kernels from functions of one block whose operands have names.

A compute kernel is written as a function of one block of PEs. Its parameters are, in this order:

1. ``block``, the index of the block, or ``place`` if it needs the mesh row or column as well
   (`wse_kernels.operands.group.Place`).
2. The views that it uses, of ``act wgt acc f32 raw``, and ``ctl`` if it depends on a user's
   counters.
3. Its operands. A parameter whose annotation is a named tuple of `wse_kernels.operands.group`
   stands for several consecutive operands.

`over_blocks` turns such a function into the kernel that callers see. The kernel takes the same
views and ``ctl``, then all operands as one array, and loops over the blocks. Unused views are not
parameters, because the kernel would be compiled again for each of their types.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import getsource, signature
from itertools import groupby
from textwrap import dedent
from typing import Any

from wse_kernels.codegen.cores import over_cores
from wse_kernels.codegen.jit import part_function
from wse_kernels.codegen.operand_words import group_of, words_of
from wse_kernels.codegen.prefetch import fetch_ahead
from wse_kernels.operands.group import Place, parameters_of

FIRST_OPERAND = 3
"""Number of words before a kernel's own operands: first row, rows, blocks per row."""

VIEWS = ("act", "wgt", "acc", "f32", "raw", "ctl")
"""Views of SRAM, and counters, that kernels take before their operands, in this order."""

_BEGIN, _END = "a[0] * a[2]", "(a[0] + a[1]) * a[2]"
"""Expressions for the index of the first block, and for the index after the last block."""


def views_of(function: Callable[..., None]) -> tuple[str, ...]:
    """Return the names of a kernel function's parameters that receive SRAM views or counters.

    An SRAM view is the memory of the PEs as an array of one element type. The names are returned in
    the order of the tuple VIEWS, which contains all such names.
    """
    return tuple(name for name in VIEWS if name in signature(function).parameters)


def over_blocks(function: Callable[..., None]) -> Callable[..., None]:
    """Return a kernel that executes ``function`` for every block of PEs in a range of mesh rows.

    A block is a group of neighbouring PEs in a mesh row. The parameters of the kernel are the SRAM
    arrays and counters that ``function`` uses, followed by the operand array ``a``. The first two
    elements of ``a`` are the first row and the number of rows.

    The loop does not call ``function`` but contains a copy of its statements, because numba needs
    as much time to inline a call as to infer its types. The copied statements keep their source
    line numbers, which the compilation cache uses to identify the kernel.
    """
    return _loop(function, (*views_of(function), "a"), f"range({_BEGIN}, {_END})")


def over_blocks_and_cores(function: Callable[..., None]) -> Callable[..., None]:
    """Return a kernel that executes ``function`` for every block of PEs, on all CPU cores.

    The kernel is the same as the result of `over_blocks`, except that the CPU cores divide the
    blocks among themselves.
    """
    parameters = ", ".join((*views_of(function), "a"))
    part = part_function(_loop(function, ("_first_block", "_end_block", parameters), "range(_first_block, _end_block)"))
    text = f"def {function.__name__}({parameters}):\n    over_cores(part, {_BEGIN}, {_END}, ({parameters}))\n"
    return _define(function, text, {"__name__": function.__module__, "over_cores": over_cores, "part": part})


def over_cores_by_loop(function: Callable[..., None]) -> Callable[..., None] | None:
    """Return a kernel that distributes the ``prange`` loop of ``function`` over all CPU cores.

    The loop must be the last statement. Every core repeats the statements before the loop, so they
    may only assign values to names and must not write to arrays.

    Returns:
        The kernel, or None if ``function`` does not end with such a loop or has other ``prange``
        loops.
    """
    [definition] = _definitions(function)
    *statements_before, loop = definition.body
    nodes_before = (node for statement in statements_before for node in ast.walk(statement))
    if not (isinstance(loop, ast.For) and _is_prange(loop.iter)) or any(map(_is_prange, nodes_before)):
        return None
    assert isinstance(loop.iter, ast.Call)
    bounds = ["0", *map(ast.unparse, loop.iter.args)][-2:]
    parameters = ", ".join(signature(function).parameters)
    [caller] = ast.parse(
        f"def {function.__name__}({parameters}):\n    over_cores(part, {', '.join(bounds)}, ({parameters}))\n"
    ).body
    assert isinstance(caller, ast.FunctionDef)
    caller.body = statements_before + caller.body
    [part] = ast.parse(
        f"def {function.__name__}(_begin, _end, {parameters}):\n    for i in range(_begin, _end):\n        0\n"
    ).body
    assert isinstance(part, ast.FunctionDef)
    [part_loop] = part.body
    assert isinstance(part_loop, ast.For)
    part_loop.target, part_loop.body, part.body = loop.target, loop.body, [*statements_before, part_loop]
    names = function.__globals__
    compiled = part_function(_define(function, ast.Module([part], []), {**names}))
    return _define(function, ast.Module([caller], []), {**names, "over_cores": over_cores, "part": compiled})


@cache
def _definitions(function: Callable[..., None]) -> list[ast.FunctionDef]:
    """Parse the source of a function and return its function definitions as syntax trees.

    The nodes of the trees have the line numbers of the source file. The result is cached because
    each kernel is built twice: for one CPU core and for all cores.
    """
    text = ast.parse(dedent(getsource(function)))
    ast.increment_lineno(text, function.__code__.co_firstlineno - 1)
    return [node for node in text.body if isinstance(node, ast.FunctionDef)]


def _is_prange(node: ast.AST) -> bool:
    """Return whether a syntax node is a call to ``prange``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "prange"


def _loop(function: Callable[..., None], parameters: Iterable[str], blocks: str) -> Callable[..., None]:
    """Return a function whose body executes ``function`` for each block in a range.

    The statements of ``function`` are copied into the loop, after statements that assign its
    parameters.

    Args:
        function: Function of one block of PEs.
        parameters: Parameter names of the returned function.
        blocks: Python expression for the range of block indices.
    """
    view = views_of(function)[0]
    loop_text = ast.parse(
        f"def {function.__name__}({', '.join(parameters)}):\n"
        f"    for block in {blocks}:\n"
        f"        {'; '.join((f'fetch_ahead({view}, a, block)', *_assignments(function, view)))}\n"
    )
    [loop_definition], [definition] = loop_text.body, _definitions(function)
    assert isinstance(loop_definition, ast.FunctionDef)
    [loop] = loop_definition.body
    assert isinstance(loop, ast.For)
    loop.body += definition.body
    groups = {p.group.__name__: p.group for p in parameters_of(function) if p.group is not None}
    helpers = {"words_of": words_of, "group_of": group_of, "fetch_ahead": fetch_ahead, "Place": Place}
    return _define(function, loop_text, {**function.__globals__, **groups, **helpers})


def _assignments(function: Callable[..., None], view: str) -> Iterator[str]:
    """Yield Python statements that assign the parameters of ``function``, except its views.

    Operands are read from the operand array ``a``.

    Args:
        function: Function of one block of PEs.
        view: Name of one of the function's SRAM views. Its shape gives the number of PEs per block.
    """
    if "place" in signature(function).parameters:
        yield "(_blocks_per_row,) = words_of(a, 2, 1)"
        yield f"place = Place(block, block // _blocks_per_row, block % _blocks_per_row * {view}.shape[2])"
    first = FIRST_OPERAND
    for is_single, run in groupby(parameters_of(function), lambda parameter: parameter.group is None):
        if is_single:
            names = [parameter.name for parameter in run]
            yield f"({', '.join(names)},) = words_of(a, {first}, {len(names)})"
            first += len(names)
        else:
            for name, group, fields in run:
                assert group is not None
                yield f"{name} = group_of(a, {first}, {group.__name__})"
                first += len(fields)


def _define(function: Callable[..., None], text: ast.Module | str, names: dict[str, Any]) -> Callable[..., None]:
    """Define a function from generated code as if the code were in another function's source file.

    Args:
        function: Existing function. The new function has the same name and source file.
        text: Definition of the new function, as source text or syntax tree.
        names: Global names that the definition may use.

    Returns:
        The new function.
    """
    exec(compile(text, function.__code__.co_filename, "exec"), names)
    defined_function: Callable[..., None] = names[function.__name__]
    return defined_function
