"""The only import of numba: how every kernel is compiled, and the element types that numba lacks.

An element view of SRAM says its arithmetic type by its storage type: ``float32`` is itself, ``uint16`` is
IEEE half, ``int16`` is bfloat16. ``widen`` and ``narrow`` convert one element to and from float32; for half
they compile to the processor's conversion instruction, and all round to nearest even.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import config as numba_config
from numba import njit, prange, typeof, types
from numba.extending import intrinsic

_SOURCES = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))

config: Any = numba_config  # numba fills it in when it is imported, unseen by type checkers

if "NUMBA_CACHE_DIR" not in os.environ:
    # numba's cache notices neither an edited helper in another file nor bounds checks switched on or off, so the place
    # of the cache depends on both.
    _home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    _key = sha256(_SOURCES + f"bounds checks: {config.BOUNDSCHECK}".encode())
    config.CACHE_DIR = str(_home / "wse" / _key.hexdigest()[:16])

__all__ = ["kernel", "make_ready", "narrow", "parallel_kernel", "prange", "widen"]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile for one core. No fast-math: every sum keeps its order, products are not contracted."""
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy", fastmath=False)(function)
    return cast(Function, compiled)


def parallel_kernel(function: Function) -> Function:
    """Compile with its ``prange`` loops over all cores; iterations must write disjoint memory.

    The copy has a name of its own, because numba keys its cache by a function's name and not by its options.
    """
    name = f"{function.__name__}_parallel"
    twin = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    twin.__qualname__ = name
    twin.__module__ = function.__module__
    compiled: Any = njit(cache=True, nogil=True, parallel=True, error_model="numpy", fastmath=False)(twin)
    return cast(Function, compiled)


def _widen_element(value: Any) -> np.float32:
    if isinstance(value, np.uint16):
        return np.float32(value.view(np.float16))
    if isinstance(value, np.int16):
        return (np.uint32(value.view(np.uint16)) << np.uint32(16)).view(np.float32)
    return np.float32(value)


def _narrow_element(value: Any, like: Any) -> Any:
    single = np.float32(value)
    if isinstance(like, np.uint16):
        with np.errstate(over="ignore"):
            return np.float16(single).view(np.uint16)
    if isinstance(like, np.int16):
        bits = int(single.view(np.uint32))
        if np.isnan(single):
            return np.uint16((bits >> 16) | 0x40).view(np.int16)
        return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).view(np.int16)
    return single


@intrinsic
def _widen_compiled(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if value == types.uint16:
            return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())
        if value == types.int16:
            bits = builder.shl(builder.zext(args[0], ir.IntType(32)), ir.Constant(ir.IntType(32), 16))
            return builder.bitcast(bits, ir.FloatType())
        return args[0]

    return (types.float32(value), generate) if value in (types.uint16, types.int16, types.float32) else None


@intrinsic
def _narrow_compiled(typing_context: Any, value: Any, like: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if like == types.uint16:
            return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))
        if like == types.int16:
            word = ir.IntType(32)
            bits = builder.bitcast(args[0], word)
            upper = builder.lshr(bits, ir.Constant(word, 16))
            odd = builder.and_(upper, ir.Constant(word, 1))
            up = builder.add(bits, builder.add(odd, ir.Constant(word, 0x7FFF)))
            quiet = builder.or_(upper, ir.Constant(word, 0x40))
            is_nan = builder.fcmp_unordered("uno", args[0], args[0])
            rounded = builder.select(is_nan, quiet, builder.lshr(up, ir.Constant(word, 16)))
            return builder.trunc(rounded, ir.IntType(16))
        return args[0]

    if value != types.float32 or like not in (types.uint16, types.int16, types.float32):
        return None
    return like(value, like), generate


widen: Any = _widen_element if config.DISABLE_JIT else _widen_compiled
"""``widen(element)``: the float32 value of one stored element."""

narrow: Any = _narrow_element if config.DISABLE_JIT else _narrow_compiled
"""``narrow(value, like)``: the float32 ``value`` rounded to the element type of ``like``, as stored bits."""


def make_ready(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Compile ``function`` for the types of ``arguments``, or load it from the cache, without calling it."""
    type_of: Any = typeof
    if hasattr(function, "compile"):
        function.compile(tuple(type_of(argument) for argument in arguments))
