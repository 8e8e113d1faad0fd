"""The record of one kernel: all that the compiler, the cost models and the tests know of it.

A *formula* is a function whose parameters are names of the kernel's operands, after those that the field names.
``docs/decisions/0019-kernel-records.md`` has the reasons.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from wse.program.isa.operands import FIRST_OPERAND, Operand
from wse.program.isa.pe_costs import PeCosts

Formula = Callable[..., Any]


def _zero(*_: object) -> int:
    return 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """The record of a compute kernel: its operands, its cycles, its work and the bytes that it reads.

    Attributes:
        name: Its name, that of the function in ``wse_kernels`` and of the oracle.
        operands: Operands from index ``FIRST_OPERAND`` on, in the order of the function's parameters.
        work: Formula of about the element operations of one call on one PE; None: its multiply-adds.
        operation_ps: About how many picoseconds of a core of the emulating machine such an operation takes, in float16
            with sums in float32. Those of the records were measured on one core of 2.6 GHz with 512-bit vectors, and
            say which steps are worth several cores, nothing else.
        cycles: Formula of the cycles of one call on one PE; its first parameter is ``c``, the PeCosts.
        macs: Formula of the multiply-adds of one call on one PE; only products have any.
        read_bytes: Formula of the bytes of weights and cache entries that one call on one PE cannot do without, each
            counted once; its first parameter is ``b``, the bytes of an element by view. Trained vectors, which are
            short, are left out.
        cycles_over_heads: Formula as ``cycles`` of a call whose vector operations take an element of every head, or of
            every token, as far apart as these are, instead of the neighbours of one; None where there is no such form.
        counters: Whether the kernel depends on a user's counters of tokens and cache slots.
    """

    name: str
    operands: tuple[Operand, ...]
    cycles: Formula
    work: Formula | None = None
    operation_ps: int = 150
    macs: Formula = _zero
    read_bytes: Formula = _zero
    cycles_over_heads: Formula | None = None
    counters: bool = False

    def __str__(self) -> str:
        return self.name

    @cached_property
    def views(self) -> dict[str, str]:
        """The view of each operand by name; empty for a number."""
        return {operand.name: operand.view for operand in self.operands}

    @cached_property
    def index(self) -> dict[str, int]:
        """The position of each operand by name in the calling convention."""
        return {operand.name: i for i, operand in enumerate(self.operands, FIRST_OPERAND)}

    @cached_property
    def outputs(self) -> frozenset[int]:
        """Indices of the operands that the kernel writes anew."""
        return frozenset(self.index[operand.name] for operand in self.operands if operand.output)

    @cached_property
    def in_place(self) -> tuple[tuple[int, int], ...]:
        """Pairs of an operand and the output that may overwrite it."""
        return tuple((self.index[operand.over], self.index[operand.name]) for operand in self.operands if operand.over)

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """Indices of the operands that are addresses."""
        return tuple(self.index[operand.name] for operand in self.operands if operand.view)

    def by_name(self, operands: Sequence[int]) -> dict[str, int]:
        """Return the operands of a step that runs the kernel, by name."""
        return {name: int(operands[i]) for name, i in self.index.items()}

    def core_s(self, operands: Sequence[int]) -> float:
        """Return the approximate seconds that a core of this computer needs for a call on one PE."""
        return float(self._value(self.work or self.macs, operands)) * self.operation_ps * 1e-12

    def cycles_of(self, operands: Sequence[int], costs: PeCosts, *, over_heads: bool = False) -> float:
        """Return the cycles of a call on one PE; ``over_heads``: vectors over heads where that is faster."""
        cycles = float(self._value(self.cycles, operands, costs))
        if not over_heads or self.cycles_over_heads is None:
            return cycles
        return min(cycles, float(self._value(self.cycles_over_heads, operands, costs)))

    def macs_of(self, operands: Sequence[int]) -> int:
        """Multiply-adds of a call on one PE."""
        return int(self._value(self.macs, operands))

    def bytes_read(self, operands: Sequence[int], element_bytes: Mapping[str, int]) -> int:
        """Return the bytes of weights and cache entries that a call on one PE reads."""
        return int(self._value(self.read_bytes, operands, element_bytes))

    def elements(self, name: str, operands: Sequence[int]) -> int:
        """Return the elements from the address ``name`` on that a call may access."""
        extent = self.operands[self.index[name] - FIRST_OPERAND].extent
        assert extent is not None
        return self._product(extent, operands) if isinstance(extent, str) else int(self._value(extent, operands))

    def elements_used(self, name: str, operands: Sequence[int]) -> int:
        """Return the elements from the address ``name`` on that a call reads or writes."""
        reads = self.operands[self.index[name] - FIRST_OPERAND].reads
        return self._product(reads, operands) if reads else self.elements(name, operands)

    def _product(self, names: str, operands: Sequence[int]) -> int:
        return prod(int(operands[self.index[name]]) for name in names.split())

    def _value(self, formula: Formula, operands: Sequence[int], *first: object) -> Any:
        return formula(*first, *(operands[i] for i in self._parameters[formula]))

    @cached_property
    def _parameters(self) -> dict[Formula, tuple[int, ...]]:
        """The indices of the operands that each formula uses.

        Raises KeyError for a name that is not an operand.
        """
        extents = [operand.extent for operand in self.operands if callable(operand.extent)]
        formulas = dict.fromkeys([self.work or self.macs, self.macs, *extents], 0) | {
            self.cycles: 1,
            self.cycles_over_heads or self.cycles: 1,
            self.read_bytes: 1,
        }
        return {
            formula: tuple(self.index[name] for name in list(inspect.signature(formula).parameters)[first:])
            for formula, first in formulas.items()
            if formula is not _zero
        } | {_zero: ()}
