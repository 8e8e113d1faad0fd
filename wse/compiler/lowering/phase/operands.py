"""Operands of steps: lowering passes them by name, as addresses, numbers or whole buffers."""

from __future__ import annotations

from collections.abc import Mapping

from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber, fixed_number
from wse.errors import WseBug
from wse.program.isa.instructions import kernel_named
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import operand_index

Operand = SymAddress | SymNumber | SymBuffer | int


def row_operands(only_row: int | None, rows: int) -> dict[int, SymAddress | SymNumber]:
    """Return the operands that specify the rows a step runs on: first row and number of rows.

    Args:
        only_row: The row; None for all rows.
        rows: Rows of the region.

    Returns:
        The operands, with their indices in the operand array as keys.
    """
    first, count = (0, rows) if only_row is None else (only_row, 1)
    return {0: fixed_number(first), 1: fixed_number(count)}


def kernel_operands(kernel: str, operands: Mapping[str, Operand]) -> dict[int, SymAddress | SymNumber]:
    """Convert the operands of a kernel to addresses and numbers, and key them by index.

    Args:
        kernel: Name of the kernel.
        operands: Operands by name. A buffer refers to its first element.

    Returns:
        The operands, with their indices in the operand array as keys.

    Raises:
        WseBug: An operand is missing or does not belong to the kernel.
    """
    record = kernel_named(kernel)
    if operands.keys() != record.views.keys():
        raise WseBug(f"{kernel} needs the operands {list(record.views)}, got {sorted(operands)}")
    return {record.index[name]: operand_of(operands[name]) for name in record.views}


def transfer_operands(kind: type[Transfer], operands: Mapping[str, Operand]) -> dict[int, SymAddress | SymNumber]:
    """Convert the operands of a transfer to addresses and numbers, and key them by index.

    Args:
        kind: Class of the transfer.
        operands: Operands by name. A buffer refers to its first element.

    Returns:
        The operands, with their indices in the operand array as keys.

    Raises:
        WseBug: The kind has no such operand.
    """
    index = operand_index(kind)
    if unknown_names := sorted(set(operands) - set(index)):
        raise WseBug(f"{kind.__name__} has the operands {sorted(index)}, got {unknown_names}")
    return {index[name]: operand_of(value) for name, value in operands.items()}


def operand_of(value: Operand) -> SymAddress | SymNumber:
    """Convert an operand to an address or a number.

    A whole buffer is converted to the address of its first element.
    """
    if isinstance(value, SymBuffer):
        return SymAddress(buffer=value)
    if isinstance(value, int):
        return fixed_number(value)
    return value
