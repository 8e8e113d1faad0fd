"""Record of one kernel: everything that the compiler, the cost models and the tests know about it.

A *formula* is a function whose parameters have the names of operands of the kernel. Some formulas
have an additional first parameter, which is described with the field that contains the formula.
``docs/decisions/0019-kernel-records.md`` gives the reasons for this design.
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
    """Return 0: the formula for something that a kernel does not do, such as multiply-adds."""
    return 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """Record of a compute kernel: its operands, and formulas for cycles, work and bytes read.

    A formula is a function whose parameters have the names of operands of the kernel. For ``work``
    and ``macs``, it may also be a string with the names of operands whose product is the value.

    Attributes:
        name: Name of the kernel, of its function in ``wse_kernels`` and of its oracle (the
            reference implementation for a single PE).
        operands: Operands starting at index ``FIRST_OPERAND``, in the order of the function's
            parameters, where a named tuple stands for one operand per field.
        work: Formula for the approximate number of element operations of one call on one PE. None
            means the multiply-adds.
        operation_ps: Approximate time in picoseconds per element operation on one core of the
            emulating computer, for float16 with float32 sums. The values were measured on a 2.6 GHz
            core with 512-bit vectors. They only determine which steps are split over several cores.
        cycles: Formula for the cycles that one call takes on one PE. First parameter: ``c``, the
            PeCosts.
        macs: Formula for the multiply-adds of one call on one PE; 0 for kernels that are not
            products.
        read_bytes: Formula for the bytes of weights and cache entries that one call on one PE must
            read, each counted once. First parameter: ``b``, the bytes per element of each view.
            Short trained vectors, such as biases, are not counted.
        cycles_over_heads: Formula like ``cycles``, for a call that vectorises over heads or tokens:
            its vector operations read one element of every head (or token), with a stride. None if
            the kernel has no such variant.
        counters: True if the kernel depends on a user's counters of tokens and cache slots.
    """

    name: str
    operands: tuple[Operand, ...]
    cycles: Formula
    work: str | Formula | None = None
    operation_ps: int = 150
    macs: str | Formula = _zero
    read_bytes: Formula = _zero
    cycles_over_heads: Formula | None = None
    counters: bool = False

    def __str__(self) -> str:
        return self.name

    @cached_property
    def views(self) -> dict[str, str]:
        """Element type (SRAM view) in which each operand that is an address is accessed.

        The keys are the names of the operands. The value is "" for operands that are numbers.
        """
        return {operand.name: operand.view for operand in self.operands}

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each operand in the operand list of a step, keyed by operand name."""
        return {operand.name: i for i, operand in enumerate(self.operands, FIRST_OPERAND)}

    @cached_property
    def outputs(self) -> frozenset[int]:
        """Indices of the operands whose elements the kernel overwrites without reading."""
        return frozenset(self.index[operand.name] for operand in self.operands if operand.output)

    @cached_property
    def in_place(self) -> tuple[tuple[int, int], ...]:
        """Pairs of operands (input, output) for which both addresses may be equal.

        The output then overwrites the input. Operands are given as indices.
        """
        return tuple((self.index[operand.over], self.index[operand.name]) for operand in self.operands if operand.over)

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """Indices of the operands that are SRAM addresses."""
        return tuple(self.index[operand.name] for operand in self.operands if operand.view)

    def by_name(self, operands: Sequence[int]) -> dict[str, int]:
        """Return the operands of a step that runs the kernel, as a dict keyed by operand name."""
        return {name: int(operands[i]) for name, i in self.index.items()}

    def core_s(self, operands: Sequence[int]) -> float:
        """Estimate the seconds that one core of the emulating computer needs for a call on one PE.

        Args:
            operands: Operands of the step.
        """
        return self._count(self.work or self.macs, operands) * self.operation_ps * 1e-12

    def cycles_of(self, operands: Sequence[int], costs: PeCosts, *, over_heads: bool = False) -> float:
        """Return how many cycles a call takes on one PE.

        Args:
            operands: Operands of the step.
            costs: Costs of operations on the PE.
            over_heads: Whether the call may vectorise over heads. If so, the cheaper of the two
                variants is used.
        """
        cycles = float(self._value(self.cycles, operands, costs))
        if not over_heads or self.cycles_over_heads is None:
            return cycles
        return min(cycles, float(self._value(self.cycles_over_heads, operands, costs)))

    def macs_of(self, operands: Sequence[int]) -> int:
        """Return how many multiply-adds a call of the kernel performs on one PE.

        Args:
            operands: Operands of the step.
        """
        return self._count(self.macs, operands)

    def bytes_read(self, operands: Sequence[int], element_bytes: Mapping[str, int]) -> int:
        """Return how many bytes of weights and cache entries a call must read on one PE.

        Args:
            operands: Operands of the step.
            element_bytes: Bytes per element of each SRAM view (element type).
        """
        return int(self._value(self.read_bytes, operands, element_bytes))

    def elements(self, name: str, operands: Sequence[int]) -> int:
        """Return how many elements a call may access, starting at the address in an operand.

        Args:
            name: Name of the address operand.
            operands: Operands of the step.
        """
        extent = self.operands[self.index[name] - FIRST_OPERAND].extent
        assert extent is not None
        return self._count(extent, operands)

    def elements_used(self, name: str, operands: Sequence[int]) -> int:
        """Return how many elements a call really uses, starting at the address in an operand.

        A call may use only some of the `elements` that it can access: a look-up in an embedding
        table reads one row per token.

        Args:
            name: Name of the address operand.
            operands: Operands of the step.
        """
        reads = self.operands[self.index[name] - FIRST_OPERAND].reads
        return self._count(reads, operands) if reads else self.elements(name, operands)

    def _count(self, formula: str | Formula, operands: Sequence[int]) -> int:
        """Return the value of a formula for a number of elements or operations.

        Args:
            formula: The formula, or names of operands, separated by spaces, whose product it is.
            operands: Operands of the step.
        """
        if isinstance(formula, str):
            return prod(int(operands[self.index[name]]) for name in formula.split())
        return int(self._value(formula, operands))

    def _value(self, formula: Formula, operands: Sequence[int], *first: object) -> Any:
        """Call a formula of the kernel with the operands of a step.

        Each parameter of the formula gets the operand of the same name.

        Args:
            formula: The formula.
            operands: Operands of the step.
            first: Arguments that precede the operands, such as the costs of a PE.
        """
        return formula(*first, *(operands[i] for i in self._parameters[formula]))

    @cached_property
    def _parameters(self) -> dict[Formula, tuple[int, ...]]:
        """Indices of the operands that each formula of the kernel uses, keyed by formula.

        Raises:
            KeyError: A parameter of a formula is not the name of an operand.
        """
        extents = [operand.extent for operand in self.operands]
        counts = [count for count in (self.work, self.macs, *extents) if callable(count)]
        formulas = dict.fromkeys(counts, 0) | {
            self.cycles: 1,
            self.cycles_over_heads or self.cycles: 1,
            self.read_bytes: 1,
        }
        return {
            formula: tuple(self.index[name] for name in list(inspect.signature(formula).parameters)[first:])
            for formula, first in formulas.items()
            if formula is not _zero
        } | {_zero: ()}
