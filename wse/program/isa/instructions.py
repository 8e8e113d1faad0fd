"""Instruction set of the PEs: the records of all compute kernels.

A Program refers to a kernel by its position in this list.

The cycle count of a kernel is the sum of its vector operations and its scalar work:

- A vector operation over n elements needs issue + ceil(n / width) cycles. The width depends on the
  operation and the element type, according to the vendor's SIMD table for the wafer generation. If
  an operation reads two operands from SRAM, the width is divided by the bank conflict ratio of the
  software profile.
- Identical vector operations that belong to one mapped operation, such as the rows of a product,
  have a lower issue cost each.
- Functions such as exp run in the scalar library, one element at a time.
- An iteration of a loop around vector operations costs its backward branch.

The costs of issue, conflicts, loops and functions come from the software profile, which cites the
source of each.

The numbers of multiply-adds and of bytes read are independent of the machine. Divided by the peak
rates of a PE, they give lower bounds that hold for any software.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.activation import ACTIVATION
from wse.program.isa.attention import ATTENTION
from wse.program.isa.delta_rule import DELTA_RULE
from wse.program.isa.elementwise import ELEMENTWISE
from wse.program.isa.experts import EXPERTS
from wse.program.isa.kernel import Kernel
from wse.program.isa.latent import LATENT
from wse.program.isa.linear import LINEAR
from wse.program.isa.norm import NORM
from wse.program.isa.rotary import ROTARY
from wse.program.isa.router import ROUTER
from wse.program.isa.vocabulary import VOCABULARY

KERNELS: Final = (
    *LINEAR,
    *NORM,
    *ROTARY,
    *ATTENTION,
    *ELEMENTWISE,
    *LATENT,
    *DELTA_RULE,
    *ACTIVATION,
    *VOCABULARY,
    *ROUTER,
    *EXPERTS,
)
"""Records of all kernels. The code of a kernel in a Program is its index in this tuple."""

CODES: Final = {kernel.name: code for code, kernel in enumerate(KERNELS)}
"""Code of each kernel by name."""


def kernel_named(name: str) -> Kernel:
    """Return the `Kernel` record (operands and cost formulas) of the kernel with a given name.

    Raises:
        KeyError: No kernel has this name.
    """
    return KERNELS[CODES[name]]
