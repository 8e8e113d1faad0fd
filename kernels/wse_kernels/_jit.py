"""The only import of numba: how every kernel is compiled, and the element types that numba lacks.

An element view of SRAM says its arithmetic type by its storage type: ``float32`` is itself, ``uint16`` is
IEEE half, ``int16`` is bfloat16, and ``uint8``, which is only read as a number, the power of two e8m0 (OCP Microscaling
Formats 1.0, section 5.4.1). ``widen`` and ``narrow`` convert one element to and from float32; for half they compile to
the processor's conversion instruction, and all round to nearest even.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import __version__ as llvmlite_version
from llvmlite import ir
from numba import __version__ as numba_version
from numba import config as numba_config
from numba import njit, prange, typeof, types
from numba.core import cgutils as numba_cgutils
from numba.core import serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array as numba_populate_array
from numba.np.ufunc.parallel import _launch_threads

from wse_kernels._cache import KernelFiles, cache_home

config: Any = numba_config  # numba fills it in when it is imported, unseen by type checkers
cgutils: Any = numba_cgutils
launch_threads: Any = _launch_threads
populate_array: Any = numba_populate_array


_PACKAGE = Path(__file__).parent
_CODE_SETTINGS = (
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "ENABLE_AVX",
    "LOOP_VECTORIZE",
    "OPT",
    "SLP_VECTORIZE",
    "USING_SVML",
)


def _versions() -> str:
    """The digest of all that compiled code depends on besides kernel, types of arguments and processor."""
    sources = sha256(b"".join(path.read_bytes() for path in sorted(_PACKAGE.glob("*.py")))).hexdigest()
    settings = [str(getattr(config, name, None)) for name in _CODE_SETTINGS]
    return " ".join([sources, str(sys.implementation.cache_tag), numba_version, llvmlite_version, *settings])


_VERSIONS = _versions()

_HOME = cache_home()

KERNEL_FILES = KernelFiles(_HOME and _HOME / sha256(_VERSIONS.encode()).hexdigest()[:16])
"""The files of compiled kernels of these sources and versions."""


class KernelCache(_Cache):
    """The cache of one function of this package for numba, which asks it before it compiles and gives it what it made.

    Numba's own notices no edited helper in another file, and processes that write at the same time mix up its files.

    Attributes:
        name: The name of the kernel.
        parallel: Whether this is its build for all cores.
    """

    def __init__(self, function: Any, *, parallel: bool) -> None:
        self.name, self.parallel = function.__name__, parallel
        build = "parallel" if parallel else "serial"
        self._file_stem = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-{build}"

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return str(KERNEL_FILES.folder or "")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for the types of ``sig``; None where none was kept."""
        target_context.refresh()
        content = KERNEL_FILES.read(self._file(sig, target_context.codegen()))
        rebuild: Any = CompileResult._rebuild
        if self.parallel:
            launch_threads()  # code refers to functions of the threads
        return None if content is None else rebuild(target_context, *pickle.loads(content))

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep what was compiled for the types of ``sig``, unless it has addresses of this process in it."""
        dumps: Any = serialize.dumps
        if not cres.library.has_dynamic_globals:
            KERNEL_FILES.write(self._file(sig, cres.library.codegen), dumps(cres._reduce()))

    def has(self, types: tuple[Any, ...], codegen: Any) -> bool:
        """Whether the compiled function for ``types`` was kept."""
        return KERNEL_FILES.has(self._file(types, codegen))

    def enable(self) -> None:
        """Do nothing: it is always on."""

    def disable(self) -> None:
        """Do nothing: it is always on."""

    def flush(self) -> None:
        """Do nothing: files are never stale."""

    def _file(self, sig: Any, codegen: Any) -> str:
        key = sha256(f"{_VERSIONS} {self._file_stem} {sig} {codegen.magic_tuple()}".encode())
        return f"{self._file_stem}-{key.hexdigest()[:32]}.bin"


__all__ = [
    "KERNEL_FILES",
    "build_of",
    "cgutils",
    "clear_rows",
    "compile_for",
    "config",
    "helper_function",
    "inline_function",
    "intrinsic",
    "ir",
    "is_compiled",
    "is_kept",
    "kernel",
    "launch_threads",
    "multiply_add_lanes",
    "multiply_add_rows",
    "narrow",
    "narrow_ir",
    "parallel_kernel",
    "part_function",
    "populate_array",
    "prange",
    "row_pointer",
    "spread_kernel",
    "types",
    "types_of",
    "widen",
    "widen_ir",
    "words_of",
]

PREFETCH_BYTES = 8192  # how far ahead weights are fetched; 4 to 64 KiB were tried and did alike from 8 on
CACHE_LINE_BYTES = 64  # a cache line
E8M0_BIAS = 127
E8M0_NAN = 255
_STORED = (types.uint16, types.int16, types.float32)

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function, *, allocates: bool = False) -> Function:
    """Compile for one core; a kernel that ``allocates`` arrays says so."""
    return _kept(function, parallel=False, allocates=allocates)


def parallel_kernel(function: Function, *, allocates: bool = False) -> Function:
    """Compile with its ``prange`` loops over all cores; iterations must write disjoint memory."""
    return _kept(function, parallel=True, prange=True, allocates=allocates)


def spread_kernel(function: Function) -> Function:
    """Compile a kernel that calls a `part_function` over all cores."""
    return _kept(function, parallel=True)


def part_function(function: Function) -> Function:
    """A function that the kernels which call it do not write out; numba compiles it once for its types."""
    return cast(Function, _compiled(function, no_cpython_wrapper=True))


def helper_function(function: Function) -> Function:
    """A function that kernels call and that LLVM writes out in them; numba types and lowers it once for its types."""
    return cast(Function, _compiled(function, forceinline=True, no_cpython_wrapper=True))


def inline_function(function: Function) -> Function:
    """A function that numba writes out in the kernels that call it, so that constants among its arguments are theirs.

    It is typed and lowered anew for every call: what is called from many places is a `helper_function`.
    """
    return cast(Function, _compiled(function, inline="always"))


def _kept(function: Function, *, parallel: bool, prange: bool = False, allocates: bool = False) -> Function:
    """``function`` compiled for calls from Python, and kept where it is of this package, whose sources are known."""
    compiled = _compiled(function, nogil=True, parallel=prange, _nrt=allocates)
    if not config.DISABLE_JIT and Path(function.__code__.co_filename).parent == _PACKAGE:
        compiled._cache = KernelCache(function, parallel=parallel)
    return cast(Function, compiled)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    """``function`` with the options that all have.

    No fast-math: every sum keeps its order, products are not contracted. Nobody calls these by their address in C, and
    what allocates nothing needs no count of references: code for both takes a sixth of the time to compile a kernel.
    """
    compile_function: Any = njit
    common: dict[str, Any] = {"error_model": "numpy", "fastmath": False, "no_cfunc_wrapper": True, "_nrt": False}
    return compile_function(**(common | options))(function)


def _widen_element(value: Any) -> np.float32:
    if isinstance(value, np.uint16):
        return np.float32(value.view(np.float16))
    if isinstance(value, np.int16):
        return (np.uint32(value.view(np.uint16)) << np.uint32(16)).view(np.float32)
    if isinstance(value, np.uint8):
        return np.float32(np.nan if value == E8M0_NAN else np.ldexp(1.0, int(value) - E8M0_BIAS))
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


def widen_ir(builder: Any, stored: Any, value: Any) -> Any:
    """Instructions that make a float32 of ``value``, an element of numba type ``stored``, or of each of a vector."""
    single, word = _shaped(value, ir.FloatType()), _shaped(value, ir.IntType(32))
    if stored == types.uint16:
        return builder.fpext(builder.bitcast(value, _shaped(value, ir.HalfType())), single)
    if stored == types.int16:
        bits = builder.shl(builder.zext(value, word), _constant(word, 16))
        return builder.bitcast(bits, single)
    if stored == types.uint8:
        exponent = builder.zext(value, word)
        bits = builder.shl(exponent, _constant(word, 23))
        smallest = builder.icmp_unsigned("==", exponent, _constant(word, 0))  # 2 ** -127 is below the normal numbers
        bits = builder.select(smallest, _constant(word, 1 << 22), bits)
        none = builder.icmp_unsigned("==", exponent, _constant(word, E8M0_NAN))
        return builder.bitcast(builder.select(none, _constant(word, 0x7FC00000), bits), single)
    return value


def narrow_ir(builder: Any, stored: Any, value: Any) -> Any:
    """Instructions that round the float32 ``value``, or each of a vector, to the element type ``stored``."""
    word, half_word = _shaped(value, ir.IntType(32)), _shaped(value, ir.IntType(16))
    if stored == types.uint16:
        return builder.bitcast(builder.fptrunc(value, _shaped(value, ir.HalfType())), half_word)
    if stored == types.int16:
        bits = builder.bitcast(value, word)
        upper = builder.lshr(bits, _constant(word, 16))
        odd = builder.and_(upper, _constant(word, 1))
        up = builder.add(bits, builder.add(odd, _constant(word, 0x7FFF)))
        quiet = builder.or_(upper, _constant(word, 0x40))
        is_nan = builder.fcmp_unordered("uno", value, value)
        rounded = builder.select(is_nan, quiet, builder.lshr(up, _constant(word, 16)))
        return builder.trunc(rounded, half_word)
    return value


def _shaped(value: Any, element: Any) -> Any:
    """The type of ``element`` in the shape of ``value``, an element or a vector of them."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def _constant(kind: Any, number: int) -> Any:
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


@intrinsic
def _widen_compiled(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return widen_ir(builder, value, args[0])

    return (types.float32(value), generate) if value in (*_STORED, types.uint8) else None


@intrinsic
def _narrow_compiled(typing_context: Any, value: Any, like: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return narrow_ir(builder, like, args[0])

    return (like(value, like), generate) if value == types.float32 and like in _STORED else None


@intrinsic
def _multiply_add_compiled(
    typing_context: Any, acc: Any, act: Any, wgt: Any, block: Any, e: Any, x: Any, w: Any, n: Any, stride: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        accs, lanes = row_pointer(context, builder, acc, args[0], args[3], args[4])
        acts = row_pointer(context, builder, act, args[1], args[3], args[5])[0]
        weights = row_pointer(context, builder, wgt, args[2], args[3], args[6])[0]
        function = _rows_function(builder.module, (acc, act, wgt), (accs.type, acts.type, weights.type))
        builder.call(function, [accs, acts, weights, args[7], lanes, builder.mul(args[8], lanes)])
        return context.get_dummy_value()

    integers = (types.int64,) * 6
    return types.void(acc, act, wgt, *integers), generate


@intrinsic
def _multiply_add_lanes_compiled(
    typing_context: Any, acc: Any, values: Any, wgt: Any, block: Any, e: Any, w: Any, n: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        accs, lanes = row_pointer(context, builder, acc, args[0], args[3], args[4])
        factors = context.make_array(values)(context, builder, args[1]).data
        weights = row_pointer(context, builder, wgt, args[2], args[3], args[5])[0]
        function = _rows_function(builder.module, (acc, values, wgt), (accs.type, factors.type, weights.type))
        builder.call(function, [accs, factors, weights, args[6], lanes, lanes])
        return context.get_dummy_value()

    return types.void(acc, values, wgt, *(types.int64,) * 4), generate


@intrinsic(prefer_literal=True)
def _words_compiled(typing_context: Any, words: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(words)(context, builder, args[0])
        word = ir.IntType(64)
        if context.enable_boundscheck:
            (length,) = cgutils.unpack_tuple(builder, array.shape)
            cgutils.do_boundscheck(context, builder, ir.Constant(word, count.literal_value - 1), length)
        loaded = [builder.load(builder.gep(array.data, [ir.Constant(word, i)])) for i in range(count.literal_value)]
        return context.make_tuple(builder, signature.return_type, loaded)

    tuple_type: Any = types.UniTuple
    return tuple_type(words.dtype, count.literal_value)(words, count), generate


def _words(words: Any, count: int) -> tuple[Any, ...]:
    return tuple(words[:count])


def row_pointer(context: Any, builder: Any, view: Any, value: Any, block: Any, index: Any) -> tuple[Any, Any]:
    """Pointer to ``value[block, index, 0]``, where ``view`` is the array's type, and its lanes."""
    array = context.make_array(view)(context, builder, value)
    _, height, lanes = cgutils.unpack_tuple(builder, array.shape)
    at = builder.mul(builder.add(builder.mul(block, height), index), lanes)
    return builder.gep(array.data, [at]), lanes


def _rows_function(module: Any, views: tuple[Any, Any, Any], pointers: tuple[Any, Any, Any]) -> Any:
    """acc[n, lane] += act[lane] * wgt[n, lane], as a function whose pointers do not alias, so that it vectorises.

    The compiler cannot see that views of one memory do not overlap, and its checks at run time cost more than a
    row. Rows of weights are fetched into the second-level cache some way ahead: without it a core streams at half
    its rate.
    """
    name = "wse_multiply_add_" + "_".join(str(view.dtype) for view in views)
    if name in module.globals:
        return module.globals[name]
    word, byte, int32 = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)
    prefetch_type = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
    prefetch = cgutils.get_or_insert_function(module, prefetch_type, "llvm.prefetch.p0")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, word, word, word]), name)
    function.linkage = "internal"
    for pointer in function.args[:3]:
        pointer.add_attribute("noalias")
    acc, act, wgt, count, lanes, stride = function.args
    stored = [view.dtype for view in views]
    bytes_each = views[2].dtype.bitwidth // 8
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    with cgutils.for_range(builder, count, intp=word) as rows:
        sums = builder.gep(acc, [builder.mul(rows.index, lanes)])
        weights = builder.gep(wgt, [builder.mul(rows.index, stride)])
        ahead = builder.bitcast(builder.gep(weights, [ir.Constant(word, PREFETCH_BYTES // bytes_each)]), byte)
        last = builder.mul(lanes, ir.Constant(word, bytes_each))
        lines = builder.udiv(
            builder.add(last, ir.Constant(word, CACHE_LINE_BYTES - 1)), ir.Constant(word, CACHE_LINE_BYTES)
        )
        with cgutils.for_range(builder, lines, intp=word) as line:
            at = builder.gep(ahead, [builder.mul(line.index, ir.Constant(word, CACHE_LINE_BYTES))])
            builder.call(prefetch, [at, *(ir.Constant(int32, v) for v in (0, 2, 1))])  # to read, second level, data
        with cgutils.for_range(builder, lanes, intp=word) as lane:
            place = builder.gep(sums, [lane.index])
            x = widen_ir(builder, stored[1], builder.load(builder.gep(act, [lane.index])))
            w = widen_ir(builder, stored[2], builder.load(builder.gep(weights, [lane.index])))
            total = builder.fadd(widen_ir(builder, stored[0], builder.load(place)), builder.fmul(x, w))
            builder.store(narrow_ir(builder, stored[0], total), place)
    builder.ret_void()
    return function


def _multiply_add_rows(acc: Any, act: Any, wgt: Any, block: int, e: int, x: int, w: int, n: int, stride: int) -> None:
    for i in range(n):
        for lane in range(acc.shape[2]):
            old = acc[block, e + i, lane]
            product = widen(act[block, x, lane]) * widen(wgt[block, w + i * stride, lane])
            acc[block, e + i, lane] = narrow(widen(old) + product, old)


def _multiply_add_lanes(acc: Any, values: Any, wgt: Any, block: int, e: int, w: int, n: int) -> None:
    for i in range(n):
        for lane in range(acc.shape[2]):
            old = acc[block, e + i, lane]
            product = values[lane] * widen(wgt[block, w + i, lane])
            acc[block, e + i, lane] = narrow(widen(old) + product, old)


widen: Any = _widen_element if config.DISABLE_JIT else _widen_compiled
"""``widen(element)``: the float32 value of one stored element."""

narrow: Any = _narrow_element if config.DISABLE_JIT else _narrow_compiled
"""``narrow(value, like)``: the float32 ``value`` rounded to the element type of ``like``, as stored bits."""

multiply_add_rows: Any = _multiply_add_rows if config.DISABLE_JIT else _multiply_add_compiled
"""``multiply_add_rows(acc, act, wgt, block, e, x, w, n, stride)``: acc[e + i] += act[x] * wgt[w + i * stride], i < n.

Indices are rows ``[block, row, :]`` of the views; all lanes of a row take part. The product is rounded to float32, the
sum to float32 and then to acc's type. Rows outside a view are not noticed: the caller vouches for them.
"""

multiply_add_lanes: Any = _multiply_add_lanes if config.DISABLE_JIT else _multiply_add_lanes_compiled
"""``multiply_add_lanes(acc, values, wgt, block, e, w, n)``: as `multiply_add_rows`, by float32 values of the lanes."""


words_of: Any = _words if config.DISABLE_JIT else _words_compiled
"""``words_of(words, count)``: the first ``count`` words, a number written out, of a contiguous vector, as a tuple.

numba makes some thirty instructions of each ``words[i]``, which take longer to compile than many a kernel.
"""


@helper_function
def clear_rows(view: Any, block: int, e: int, n: int) -> None:
    """view[e + i] = 0, i < n, in all lanes of a block."""
    for i in range(e, e + n):
        for lane in range(view.shape[2]):
            view[block, i, lane] = narrow(np.float32(0.0), view[block, i, lane])


def types_of(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The types of arguments as numba has them."""
    type_of: Any = typeof
    return tuple(type_of(argument) for argument in arguments)


def is_compiled(function: Any) -> bool:
    """Whether ``function`` is one that is compiled, and not plain Python."""
    return isinstance(function, Dispatcher)


def is_kept(function: Any, types: tuple[Any, ...]) -> bool:
    """Whether the compiled ``function`` is there for ``types``, in this process or from an earlier one."""
    cache = function._cache
    kept = isinstance(cache, KernelCache) and cache.has(types, function.targetctx.codegen())
    return kept or types in function.overloads


def compile_for(function: Any, types: tuple[Any, ...]) -> None:
    """Compile ``function`` for ``types``, or load it from where it was kept."""
    function.compile(types)


def build_of(function: Any) -> tuple[str, bool]:
    """The name of a compiled kernel, and whether it is its build for all cores."""
    return function._cache.name, function._cache.parallel
