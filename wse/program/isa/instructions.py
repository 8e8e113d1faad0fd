"""The instruction set of the PEs: every compute kernel's record, in the order by which a Program refers to them.

What a kernel costs is a number of vector operations and scalar work. A vector operation over n elements takes

    issue + ceil(n / width)

cycles, the width by operation and element type as the vendor's SIMD table gives it for the generation, divided by the
software profile's ratio of bank conflicts where an operation reads two operands from SRAM. Equal operations that one
mapped operation makes, such as the rows of a product, have a cheaper issue each. Functions such as exp run on the
scalar library, one element at a time; a turn of a loop around vector operations costs its back edge. Sources: the costs
of issue, conflicts, loops and functions are the software profile's, each with its source there.

Multiply-adds and bytes read have no machine's rate in them: divided by the rates of a PE they give bounds below which
no software gets.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.activation import ACTIVATION
from wse.program.isa.attention import ATTENTION
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
    *ACTIVATION,
    *VOCABULARY,
    *ROUTER,
    *EXPERTS,
)
"""Records of all kernels; the code of a kernel in a Program is its index here."""

CODES: Final = {kernel.name: code for code, kernel in enumerate(KERNELS)}
"""The code of each kernel by name."""


def kernel_named(name: str) -> Kernel:
    """Return the record of a kernel. Raises KeyError for an unknown name."""
    return KERNELS[CODES[name]]
