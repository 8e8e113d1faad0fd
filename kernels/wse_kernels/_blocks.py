"""The calling convention of compute kernels, put around functions of one block whose operands have names.

A compute kernel is written as a function of one block of PEs. Its parameters are, in this order:

1. ``block``, and where it goes by them ``block_row`` and ``block_col``: the block's index, its mesh row, and the mesh
   column of the PE in its first lane;
2. those of the views ``act wgt acc f32 raw`` that it touches, and ``ctl`` where it goes by a user's counters;
3. its operands.

`over_blocks` makes of it the kernel that callers see, which takes the same views and ``ctl``, then all operands as one
array. What that does is the same loop for all of them, so it is not written out. A view that a kernel does not touch is
none of its parameters: it would be compiled anew for each type of that view.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import getsource, signature
from textwrap import dedent
from typing import Any

from wse_kernels._jit import prange, words_of

_PLACE_WORDS = ("_first_row", "_rows", "_blocks_per_row")

FIRST_OPERAND = len(_PLACE_WORDS)
"""Words of the operands before the first of a kernel's own: first row, rows, blocks a row."""

VIEWS = ("act", "wgt", "acc", "f32", "raw", "ctl")
"""Views of SRAM and counters that kernels take before their operands, in this order; each takes those it touches."""

_PLACES = {
    "block": "block",
    "block_row": "block // _blocks_per_row",
    "block_col": "block % _blocks_per_row * {view}.shape[2]",
}


def operands_of(function: Callable[..., None]) -> tuple[str, ...]:
    """Names of a kernel's operands, in the order of the calling convention."""
    return tuple(name for name in signature(function).parameters if name not in VIEWS and name not in _PLACES)


def views_of(function: Callable[..., None]) -> tuple[str, ...]:
    """The views and ``ctl`` that a kernel takes, in the order of VIEWS."""
    return tuple(name for name in VIEWS if name in signature(function).parameters)


def over_blocks(function: Callable[..., None]) -> Callable[..., None]:
    """The kernel ``(*views, a)`` that does for every block of the rows of ``a`` what ``function`` does; see `views_of`.

    It has the function's statements in its loop, at their lines of the function's source file, by which numba's cache
    knows it: to inline a call takes numba as long as to type it.
    """
    views, taken = views_of(function), signature(function).parameters
    words = (*_PLACE_WORDS, *operands_of(function))
    places = [f"{n} = {place.format(view=views[0])}" for n, place in _PLACES.items() if n in taken and n != place]
    unpacking = f"{', '.join(words)} = words_of(a, {len(words)})"
    kernel_text = ast.parse(
        f"def {function.__name__}({', '.join(views)}, a):\n"
        "    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):\n"
        f"        {'; '.join([unpacking, *places])}\n"
    )
    function_text = ast.parse(dedent(getsource(function)))
    ast.increment_lineno(function_text, function.__code__.co_firstlineno - 1)
    [kernel_definition], [definition] = kernel_text.body, function_text.body
    assert isinstance(kernel_definition, ast.FunctionDef)
    assert isinstance(definition, ast.FunctionDef)
    [loop] = kernel_definition.body
    assert isinstance(loop, ast.For)
    loop.body += definition.body
    names: dict[str, Any] = {**function.__globals__, "prange": prange, "words_of": words_of}
    exec(compile(kernel_text, function.__code__.co_filename, "exec"), names)
    kernel: Callable[..., None] = names[function.__name__]
    return kernel
