"""The calling convention of compute kernels, put around functions of one block whose operands have names.

A compute kernel is written as a function of one block of PEs. Its parameters are, in this order:

1. ``block``, and where it goes by them ``block_row`` and ``block_col``: the block's index, its mesh row, and the mesh
   column of the PE in its first lane;
2. those of the views ``act wgt acc f32 raw`` that it touches, and ``ctl`` where it depends on a user's counters;
3. its operands.

`over_blocks` makes of it the kernel that callers see, which takes the same views and ``ctl``, then all operands as one
array. What that does is the same loop for all of them, so it is not written out. A view that a kernel does not touch is
none of its parameters: it would be compiled anew for each type of that view.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import getsource, signature
from textwrap import dedent
from typing import Any

from wse_kernels._cores import over_cores
from wse_kernels._jit import part_function, words_of
from wse_kernels._prefetch import fetch_ahead

_PLACE_WORDS = ("_first_row", "_rows", "_blocks_per_row")

FIRST_OPERAND = len(_PLACE_WORDS)
"""Words of the operands before the first of a kernel's own: first row, rows, blocks a row."""

VIEWS = ("act", "wgt", "acc", "f32", "raw", "ctl")
"""Views of SRAM and counters that kernels take before their operands, in this order; each takes those it touches."""

_BEGIN, _END = "a[0] * a[2]", "(a[0] + a[1]) * a[2]"
"""The first of the blocks, and the one behind the last."""

_PLACES = {
    "block": "block",
    "block_row": "block // _blocks_per_row",
    "block_col": "block % _blocks_per_row * {view}.shape[2]",
}


def operands_of(function: Callable[..., None]) -> tuple[str, ...]:
    """Return the names of a kernel's operands, in the order of the calling convention."""
    return tuple(name for name in signature(function).parameters if name not in VIEWS and name not in _PLACES)


def views_of(function: Callable[..., None]) -> tuple[str, ...]:
    """Return the views and ``ctl`` that a kernel takes, in the order of VIEWS."""
    return tuple(name for name in VIEWS if name in signature(function).parameters)


def over_blocks(function: Callable[..., None]) -> Callable[..., None]:
    """The kernel ``(*views, a)`` that does for every block of the rows of ``a`` what ``function`` does; see `views_of`.

    It has the function's statements in its loop, at their lines of the function's source file, by which the cache of
    kernels knows it: to inline a call takes numba as long as to type it.
    """
    return _loop(function, (*views_of(function), "a"), f"range({_BEGIN}, {_END})")


def over_blocks_and_cores(function: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel of `over_blocks` with a part of the blocks on each core."""
    taken = ", ".join((*views_of(function), "a"))
    part = part_function(_loop(function, ("_first_block", "_end_block", taken), "range(_first_block, _end_block)"))
    text = f"def {function.__name__}({taken}):\n    over_cores(part, {_BEGIN}, {_END}, ({taken}))\n"
    return _define(function, text, {"__name__": function.__module__, "over_cores": over_cores, "part": part})


def over_cores_by_loop(function: Callable[..., None]) -> Callable[..., None] | None:
    """The kernel of ``function``, which ends in a loop over ``prange``, a part of it on each core; None for others.

    What stands before the loop is done on each core again, and so must be no more than names for what is read.
    """
    [definition] = _definitions(function)
    *before, loop = definition.body
    if not (isinstance(loop, ast.For) and _is_prange(loop.iter)) or any(map(_is_prange, _nodes(before))):
        return None
    assert isinstance(loop.iter, ast.Call)
    bounds = ["0", *map(ast.unparse, loop.iter.args)][-2:]
    taken = ", ".join(signature(function).parameters)
    [whole] = ast.parse(
        f"def {function.__name__}({taken}):\n    over_cores(part, {', '.join(bounds)}, ({taken}))\n"
    ).body
    assert isinstance(whole, ast.FunctionDef)
    whole.body = before + whole.body
    [part] = ast.parse(
        f"def {function.__name__}(_begin, _end, {taken}):\n    for i in range(_begin, _end):\n        0\n"
    ).body
    assert isinstance(part, ast.FunctionDef)
    [part_loop] = part.body
    assert isinstance(part_loop, ast.For)
    part_loop.target, part_loop.body, part.body = loop.target, loop.body, [*before, part_loop]
    names = function.__globals__
    compiled = part_function(_define(function, ast.Module([part], []), {**names}))
    return _define(function, ast.Module([whole], []), {**names, "over_cores": over_cores, "part": compiled})


@cache
def _definitions(function: Callable[..., None]) -> list[ast.FunctionDef]:
    """Return the definitions in a function's source, at its lines, which both builds of a kernel share."""
    text = ast.parse(dedent(getsource(function)))
    ast.increment_lineno(text, function.__code__.co_firstlineno - 1)
    return [node for node in text.body if isinstance(node, ast.FunctionDef)]


def _nodes(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    return (node for statement in statements for node in ast.walk(statement))


def _is_prange(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "prange"


def _loop(function: Callable[..., None], parameters: Iterable[str], blocks: str) -> Callable[..., None]:
    """A function of ``parameters`` that does for every one of ``blocks``, an expression, what ``function`` does."""
    taken = signature(function).parameters
    words, view = (*_PLACE_WORDS, *operands_of(function)), views_of(function)[0]
    places = [f"{n} = {place.format(view=view)}" for n, place in _PLACES.items() if n in taken and n != place]
    unpacking = f"{', '.join(words)} = words_of(a, {len(words)})"
    loop_text = ast.parse(
        f"def {function.__name__}({', '.join(parameters)}):\n"
        f"    for block in {blocks}:\n"
        f"        fetch_ahead({view}, a, block); {'; '.join([unpacking, *places])}\n"
    )
    [loop_definition], [definition] = loop_text.body, _definitions(function)
    assert isinstance(loop_definition, ast.FunctionDef)
    [loop] = loop_definition.body
    assert isinstance(loop, ast.For)
    loop.body += definition.body
    return _define(function, loop_text, {**function.__globals__, "words_of": words_of, "fetch_ahead": fetch_ahead})


def _define(function: Callable[..., None], text: ast.Module | str, names: dict[str, Any]) -> Callable[..., None]:
    """Return the function of the name of ``function`` that a text defines, as one of the same file."""
    exec(compile(text, function.__code__.co_filename, "exec"), names)
    made: Callable[..., None] = names[function.__name__]
    return made
