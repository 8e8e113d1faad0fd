"""The calling convention of compute kernels, put around functions of one block whose operands have names.

A compute kernel is written as a function of one block of PEs. Its parameters are, in this order:

1. ``block``, and where it goes by them ``block_row`` and ``block_col``: the block's index, its mesh row, and the mesh
   column of the PE in its first lane;
2. those of the views ``act wgt acc f32 raw`` that it touches, and ``ctl`` where it goes by a user's counters;
3. its operands.

`over_blocks` makes of it the kernel that callers see. What that does is the same loop for all of them, so it is not
written out; the function is inline_function there when it is compiled, and costs no call.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from wse_kernels._jit import inline_function, prange

FIRST_OPERAND = 3
"""Words of the operands before the first with a name: first row, rows, blocks a row."""

_VIEWS = ("act", "wgt", "acc", "f32", "raw", "ctl")
_PLACES = {"block": "block", "block_row": "block // a[2]", "block_col": "block % a[2] * act.shape[2]"}


def operands_of(function: Callable[..., None]) -> tuple[str, ...]:
    """Names of a kernel's operands, in the order of the calling convention."""
    return tuple(name for name in signature(function).parameters if name not in _VIEWS and name not in _PLACES)


def over_blocks(function: Callable[..., None]) -> Callable[..., None]:
    """The kernel ``(act, wgt, acc, f32, raw, ctl, a)`` that calls ``function`` for every block of the rows of ``a``.

    Its source file is that of ``function``, by which numba's cache knows both.
    """
    arguments = ", ".join(_PLACES.get(name, name) for name in signature(function).parameters)
    unpacking = "".join(f"    {name} = a[{i}]\n" for i, name in enumerate(operands_of(function), FIRST_OPERAND))
    source = (
        f"def {function.__name__}({', '.join(_VIEWS)}, a):\n"
        f"{unpacking}"
        "    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):\n"
        f"        one_block({arguments})\n"
    )
    names: dict[str, Any] = {"__name__": function.__module__, "one_block": inline_function(function), "prange": prange}
    exec(compile(source, function.__code__.co_filename, "exec"), names)
    kernel: Callable[..., None] = names[function.__name__]
    return kernel
