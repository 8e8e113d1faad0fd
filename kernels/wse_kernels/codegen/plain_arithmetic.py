"""Translation of plain Python functions of a float32 to LLVM instructions, operation by operation.

Where a kernel calls ``plain(function)``, the function runs once, on objects that record its
operations as instructions. There are three advantages:

- The instructions have no fast-math flags, so no product is contracted with a sum.
- `where` becomes a select instruction, so a loop over lanes has no branches and vectorises.
- Numba does not have to type, lower and optimise the function, which would take up to 0.2 s each.

Where kernels are interpreted, the same source runs on numpy's float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wse_kernels.codegen.elements import constant, type_like
from wse_kernels.codegen.jit import config, intrinsic, ir, types

SINGLE, DOUBLE, WORD, DOUBLE_WORD = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
EXPONENT_BIAS, MANTISSA_BITS = 127, 23
DOUBLE_MANTISSA_BITS = 52

ROUNDER = np.float32(1.5 * 2.0**23)
"""Constant that, added to a float32 value, rounds it to an integer in the low bits of the sum."""
ROUNDER_BITS = 0x4B400000


class _Number:
    """Number or condition whose Python operators generate LLVM instructions.

    A Python function that is called with such objects instead of numbers generates the LLVM
    instructions of its computation.
    """

    __array_ufunc__ = None  # makes numpy numbers defer to the operators of this class

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def value_of(self, number: Any) -> Any:
        """Return the LLVM value of a number. A Python number becomes a constant."""
        return number.value if isinstance(number, _Number) else constant(self.value.type, float(number))

    def __neg__(self) -> _Number:
        return _Number(self.builder, self.builder.fneg(self.value))

    def __add__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.fadd(self.value, self.value_of(other)))

    def __sub__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.fsub(self.value, self.value_of(other)))

    def __mul__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.fmul(self.value, self.value_of(other)))

    def __truediv__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.fdiv(self.value, self.value_of(other)))

    def __lt__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.fcmp_ordered("<", self.value, self.value_of(other)))

    def __gt__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.fcmp_ordered(">", self.value, self.value_of(other)))

    def __eq__(self, other: object) -> Any:
        return _Number(self.builder, self.builder.fcmp_ordered("==", self.value, self.value_of(other)))

    __hash__ = None  # type: ignore[assignment]  # equality is an instruction

    def __and__(self, other: _Number) -> _Number:
        return _Number(self.builder, self.builder.and_(self.value, other.value))

    def __or__(self, other: _Number) -> _Number:
        return _Number(self.builder, self.builder.or_(self.value, other.value))

    def __rsub__(self, other: Any) -> _Number:
        return _Number(self.builder, self.value_of(other)) - self


def where(condition: Any, value: Any, alternative: Any) -> Any:
    """Return ``value`` if a condition is true, else ``alternative``.

    The arguments are plain values or, while code is generated, `_Number` objects that stand for
    LLVM values. If the condition is a `_Number`, ``value`` or ``alternative`` must also be one, and
    the result stands for a select instruction.
    """
    if not isinstance(condition, _Number):
        return value if condition else alternative
    number = value if isinstance(value, _Number) else alternative
    return _Number(
        number.builder, number.builder.select(condition.value, number.value_of(value), number.value_of(alternative))
    )


def to_double(x: Any) -> Any:
    """Return the float32 x as float64."""
    return (
        _Number(x.builder, x.builder.fpext(x.value, type_like(x.value, DOUBLE)))
        if isinstance(x, _Number)
        else np.float64(x)
    )


def to_single(x: Any) -> Any:
    """Return the float64 x rounded to float32."""
    return (
        _Number(x.builder, x.builder.fptrunc(x.value, type_like(x.value, SINGLE)))
        if isinstance(x, _Number)
        else np.float32(x)
    )


def scale_by_power(value: Any, times: Any) -> Any:
    """Return value * 2^n for an integer n from -252 to 254.

    A subnormal result is rounded only once.

    Args:
        value: float32 number.
        times: The sum ROUNDER + n in float32. The constant ROUNDER is so large that the low bits of
            the sum are the integer n.
    """
    if not isinstance(times, _Number):
        exponent = int(times.view(np.int32)) - ROUNDER_BITS
        for part in (exponent >> 1, exponent - (exponent >> 1)):
            bits = (part + EXPONENT_BIAS << MANTISSA_BITS) & 0xFFFFFFFF
            value = value * np.uint32(bits).view(np.float32)
        return value
    builder, word, single = times.builder, type_like(times.value, WORD), type_like(times.value, SINGLE)

    def power(exponent: Any) -> _Number:
        """Generate LLVM instructions that compute 2^exponent in float32.

        Args:
            exponent: Integer for which the result is a normal float32 number.
        """
        bits = builder.shl(builder.add(exponent, constant(word, EXPONENT_BIAS)), constant(word, MANTISSA_BITS))
        return _Number(builder, builder.bitcast(bits, single))

    exponent = builder.sub(builder.bitcast(times.value, word), constant(word, ROUNDER_BITS))
    half = builder.ashr(exponent, constant(word, 1))
    first = power(half)
    return _Number(builder, first.value_of(value)) * first * power(builder.sub(exponent, half))


def split_power(x: Any, minimum: float) -> tuple[Any, Any]:
    """Split x into m * 2^n with ``minimum`` <= m < 2 * ``minimum``, and return m and n.

    Args:
        x: Positive normal float64.
        minimum: Lower bound of m.
    """
    minimum_bits = int(np.float64(minimum).view(np.int64))
    if not isinstance(x, _Number):
        n = (int(x.view(np.int64)) - minimum_bits) >> DOUBLE_MANTISSA_BITS
        return np.int64(int(x.view(np.int64)) - (n << DOUBLE_MANTISSA_BITS)).view(np.float64), np.float64(n)
    builder, word, double = x.builder, type_like(x.value, DOUBLE_WORD), type_like(x.value, DOUBLE)
    bits, shift = builder.bitcast(x.value, word), constant(word, DOUBLE_MANTISSA_BITS)
    exponent = builder.ashr(builder.sub(bits, constant(word, minimum_bits)), shift)
    rest = builder.bitcast(builder.sub(bits, builder.shl(exponent, shift)), double)
    return _Number(builder, rest), _Number(builder, builder.sitofp(exponent, double))


def instructions_of(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Translate a function of one float32 to a generator of LLVM instructions.

    Returns:
        A function of an LLVM builder and an LLVM value (a float32 or a vector of them), which
        generates the instructions of ``function`` and returns their result.
    """
    return lambda builder, value: function(_Number(builder, value)).value


def plain(function: Callable[[Any], Any], results: int = 1) -> Any:
    """Translate a Python function of one float32 to a numba function with the same operations.

    Args:
        function: Plain Python function of a float32.
        results: 1 if it returns a number, else the length of the returned tuple.
    """
    if config.DISABLE_JIT:
        return function

    def instructions(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            result = function(_Number(builder, args[0]))
            if results == 1:
                return result.value
            return context.make_tuple(builder, signature.return_type, [number.value for number in result])

        made_types: Any = types
        single = types.float32
        return (single if results == 1 else made_types.UniTuple(single, results))(single), generate

    instructions.__name__ = instructions.__qualname__ = function.__name__
    return intrinsic(instructions)
