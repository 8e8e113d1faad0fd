"""Operands of compute kernels: an address in an element view of SRAM, or a whole number.

``act("x", "M K")`` is an address of activations ``[M, K]``, of which M and K are numbers among the same operands;
``numbers("M K")`` are these. ``output=True`` marks what a kernel writes anew: at its first use by an op nothing of the
operand's old value is read, unless the operand begins inside a buffer, whose beginning another step wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

VIEWS: Final = ("act", "wgt", "acc", "f32", "raw")
"""Element views of SRAM: activations, weights, accumulators, float32 statistics, and bytes of quantised weights."""

FIRST_OPERAND: Final = 3
"""Operands 0 to 2 of every kernel are its first row, its rows and the blocks of a row."""

PICO: Final = 10**12
ATTO: Final = 10**18
"""Operands are whole numbers; those named ``_pico`` and ``_atto`` count so many to 1."""


class Operand(NamedTuple):
    """An operand of a kernel.

    Attributes:
        view: The view that it is an address in; empty for a number.
        name: Its name, by which kernels, lowering and costs refer to it.
        extent: Elements from the address on that the kernel may touch: names of numbers whose product it is, or a
            function whose parameters are such names; None where no operand says how many.
        output: Whether the kernel writes what is there anew, and reads nothing of it.
        over: The operand in whose place an output may be, if its elements are no wider: each element is written after
            what stands at its place, and before it, was read.
        scratch: Whether what a PE writes there is read by the kernel alone; the emulating machine may leave anything.
        reads: Elements that a call reads of those that it may touch, as names of numbers whose product it is; empty for
            all of them.
    """

    view: str
    name: str
    extent: str | Callable[..., int] | None = None
    output: bool = False
    over: str = ""
    scratch: bool = False
    reads: str = ""


act: Final = partial(Operand, "act")
wgt: Final = partial(Operand, "wgt")
acc: Final = partial(Operand, "acc")
f32: Final = partial(Operand, "f32")
raw: Final = partial(Operand, "raw")


def numbers(names: str) -> tuple[Operand, ...]:
    """Operands that are plain numbers."""
    return tuple(Operand("", name) for name in names.split())
