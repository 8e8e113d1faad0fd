"""Groups of operands: named tuples that kernels and oracles take instead of many numbers.

A parameter of a kernel whose annotation is a named tuple stands for as many consecutive operands as
the class has fields, in the order of the fields. A parameter without such an annotation is a single
operand. Kernel and oracle of the same name have the same groups. The classes are in the modules
``products``, ``experts``, ``attention`` and ``layers`` of this package.

Sizes are counted for one PE unless a field says otherwise. An address counts elements of the view
that the kernel reads or writes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, NamedTuple, get_type_hints

NOT_OPERANDS = ("block", "place", "act", "wgt", "acc", "f32", "raw", "ctl", "pe")
"""Names of the parameters of kernels and oracles that are not operands."""


class Place(NamedTuple):
    """Position of a block of neighbouring PEs in the SRAM arrays and on the mesh.

    Attributes:
        block: Index of the block in the SRAM arrays.
        row: Mesh row of its PEs.
        col: Mesh column of its first PE.
    """

    block: int
    row: int
    col: int


class Parameter(NamedTuple):
    """Parameter of a kernel that receives one operand (an address or a number) or several.

    Attributes:
        name: Name of the parameter.
        group: Named tuple class whose fields are the operands, or None for a single operand.
        fields: Names of the operands.
    """

    name: str
    group: type[Any] | None
    fields: tuple[str, ...]


def parameters_of(function: Callable[..., None]) -> Iterator[Parameter]:
    """Yield, in order, the parameters of a kernel that receive operands.

    An operand is an address or a number with which the kernel is called. Parameters that receive
    SRAM arrays, counters or PE positions are omitted.

    Args:
        function: The kernel, or its reference function.
    """
    classes = get_type_hints(function)
    for name in signature(function).parameters:
        if name not in NOT_OPERANDS:
            group = classes.get(name)
            fields = getattr(group, "_fields", None)
            yield Parameter(name, group, fields) if fields else Parameter(name, None, (name,))
