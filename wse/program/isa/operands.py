"""Operands of compute kernels: addresses in element views of SRAM, and whole numbers.

``act("x", "M K")`` declares the address of activations with shape ``[M, K]``. M and K are numbers
among the operands of the same kernel, declared by ``numbers("M K")``. ``output=True`` marks an
operand that the kernel overwrites. The first use of an output by an op reads nothing of its old
value. The exception is an operand that begins inside a buffer, after elements that another step
wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

VIEWS: Final = ("act", "wgt", "acc", "f32", "raw")
"""Element views of SRAM, which determine the type of the elements at an address.

The views are activations, weights, accumulators, float32 statistics, and bytes of quantised
weights.
"""

FIRST_OPERAND: Final = 3
"""Index of the first operand that is specific to a kernel.

Operands 0 to 2 of every kernel are its first row, its number of rows and the blocks of a row.
"""

PICO: Final = 10**12
ATTO: Final = 10**18
"""Scale of fixed-point operands: ``_pico`` in a name counts 10^-12, ``_atto`` counts 10^-18."""


class Operand(NamedTuple):
    """Operand of a kernel: an address in a view of SRAM, or a number.

    A view determines in which element type a kernel reads and writes the bytes of SRAM.

    Attributes:
        view: View in which the operand is an address; empty for a number.
        name: Name that kernels, lowering and costs use for the operand.
        extent: Number of elements that the kernel may access, starting at the address. Either the
            names of number operands to be multiplied, or a function with such names as parameters.
            None if no operand determines the number.
        output: True if the kernel overwrites the elements without reading them.
        over: Name of the operand that this output may overwrite in place, if its elements are not
            wider. The kernel reads every element before it writes to the same place.
        scratch: True if only the kernel itself reads what it writes there. In the emulator, the
            content is undefined after the call.
        reads: Number of elements that a call actually reads, as the names of number operands to be
            multiplied; empty if it reads all accessible elements.
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
    """Return kernel operands that are plain numbers, given their names separated by spaces."""
    return tuple(Operand("", name) for name in names.split())
