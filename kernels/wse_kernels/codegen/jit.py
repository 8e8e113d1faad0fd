"""Interface to numba for all other files: compilation of kernels, and cache of compiled code.

Many functions of this package exist twice. ``_name_compiled`` is a numba intrinsic, which generates
LLVM instructions, and ``_name`` is plain Python for interpreted kernels (NUMBA_DISABLE_JIT). The
public ``name`` is one of both. Names that other files import from this one, such as ``ir``, are
imported with ``as``.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from llvmlite import __version__ as llvmlite_version
from llvmlite import ir as ir
from numba import __version__ as numba_version
from numba import config as numba_config
from numba import get_num_threads, njit, set_num_threads, typeof
from numba import prange as prange
from numba import types as types
from numba.core import cgutils as numba_cgutils
from numba.core import serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic as intrinsic
from numba.np.ufunc.parallel import _launch_threads

from wse_kernels.codegen.cache import KernelFiles, cache_home
from wse_kernels.codegen.compiler import KernelCompiler, PartCompiler

config: Any = numba_config  # its attributes are set at import time, which type checkers do not see
cgutils: Any = numba_cgutils
launch_threads: Any = _launch_threads
get_threads: Any = get_num_threads
set_threads: Any = set_num_threads


_PACKAGE = Path(__file__).parents[1]
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
    """Return a string of all versions and settings that affect the compiled code of every kernel.

    It consists of a digest of this package's sources, the versions of Python, numba and llvmlite,
    and numba's settings. The name of a cache file also depends on the kernel, its argument types
    and the processor.
    """
    files = sorted(path for path in _PACKAGE.rglob("*.py") if path.parent.name != "oracle")
    sources = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    settings = [str(getattr(config, name, None)) for name in _CODE_SETTINGS]
    return " ".join([sources, str(sys.implementation.cache_tag), numba_version, llvmlite_version, *settings])


_VERSIONS = _versions()

_HOME = cache_home()

KERNEL_FILES = KernelFiles(_HOME and _HOME / sha256(_VERSIONS.encode()).hexdigest()[:16])
"""Files of compiled kernels for these sources and versions."""


class KernelCache(_Cache):
    """Cache of one kernel's compiled code, which replaces numba's own cache.

    Numba reads the cache before it compiles the kernel and fills it afterwards. Numba's own cache
    does not notice changes to helpers in other files, and its files are corrupted if processes
    write them concurrently.

    Attributes:
        name: Name of the kernel.
        parallel: Whether the code runs on all CPU cores rather than on one.
    """

    def __init__(self, function: Any, *, parallel: bool, allocates: bool) -> None:
        self._allocates = allocates
        self.name, self.parallel = function.__name__, parallel
        build = "parallel" if parallel else "serial"
        self._file_stem = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-{build}"

    @property
    def cache_path(self) -> str:
        """Folder of the cache files."""
        return str(KERNEL_FILES.folder or "")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached code for the argument types of ``sig``, or None if there is none.

        Args:
            sig: Argument types or signature of the function.
            target_context: Numba's target context, which determines the processor.
        """
        content = KERNEL_FILES.read(self._file(sig, target_context.codegen()))
        rebuild: Any = CompileResult._rebuild
        if self.parallel:
            launch_threads()  # the code refers to functions of the thread pool
        if self._allocates:
            # The code also refers to numba's allocator. Other kernels do not need what this loads.
            target_context.refresh()
        return None if content is None else rebuild(target_context, *pickle.loads(content))

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Store the code compiled for the argument types of ``sig`` in the cache.

        Code that contains memory addresses of this process is not stored.

        Args:
            sig: Argument types or signature of the function.
            cres: Numba's compile result.
        """
        dumps: Any = serialize.dumps
        if not cres.library.has_dynamic_globals:
            KERNEL_FILES.write(self._file(sig, cres.library.codegen), dumps(cres._reduce()))

    def contains(self, types: tuple[Any, ...], codegen: Any) -> bool:
        """Return whether the cache contains code for some argument types and the current processor.

        Args:
            types: Numba types of the arguments.
            codegen: Numba's code generator, which determines the processor.
        """
        return KERNEL_FILES.contains(self._file(types, codegen))

    def enable(self) -> None:
        """Do nothing, because the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing, because the cache cannot be disabled."""

    def flush(self) -> None:
        """Do nothing, because cache files never become stale: their names depend on the sources."""

    def _file(self, sig: Any, codegen: Any) -> str:
        key = sha256(f"{_VERSIONS} {self._file_stem} {sig} {codegen.magic_tuple()}".encode())
        return f"{self._file_stem}-{key.hexdigest()[:32]}.bin"


_PART: dict[str, Any] = {"pipeline_class": PartCompiler, "no_cpython_wrapper": True}

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function, *, allocates: bool = False) -> Function:
    """Compile a function with numba for one CPU core.

    Args:
        function: Plain Python function.
        allocates: Whether it allocates arrays, which requires numba's memory manager.
    """
    return _cached_kernel(function, parallel=False, allocates=allocates)


def parallel_kernel(function: Function, *, allocates: bool = False) -> Function:
    """Compile a function with numba so that its ``prange`` loops run on all CPU cores.

    The iterations of a loop must write disjoint memory.

    Args:
        function: Plain Python function.
        allocates: Whether it allocates arrays, which requires numba's memory manager.
    """
    return _cached_kernel(function, parallel=True, prange=True, allocates=allocates)


def spread_kernel(function: Function) -> Function:
    """Compile a kernel that runs on all CPU cores without numba's parallel loops.

    The kernel distributes its work itself: it calls a `part_function` on each core.
    """
    return _cached_kernel(function, parallel=True)


def part_function(function: Function) -> Function:
    """Compile a function that is called only by kernels, without inlining it.

    Numba compiles it once per combination of argument types.
    """
    return cast(Function, _dispatcher(function, **_PART))


def helper_function(function: Function) -> Function:
    """Compile a helper function with numba, to be inlined by LLVM into the kernels that call it.

    Numba infers its types and generates its LLVM code once per combination of argument types.
    """
    return cast(Function, _dispatcher(function, forceinline=True, **_PART))


def _cached_kernel(function: Function, *, parallel: bool, prange: bool = False, allocates: bool = False) -> Function:
    """Compile ``function`` for calls from Python, with a file cache for the compiled code.

    Functions from other packages get no file cache, because changes to their sources would go
    unnoticed.

    Args:
        function: Plain Python function.
        parallel: Whether it runs on all CPU cores. This only labels the cached code.
        prange: Whether numba distributes its ``prange`` loops over all cores.
        allocates: Whether it allocates arrays, which requires numba's memory manager.
    """
    compiled = _dispatcher(function, nogil=True, parallel=prange, _nrt=allocates)
    if not config.DISABLE_JIT and Path(function.__code__.co_filename).is_relative_to(_PACKAGE):
        compiled._cache = KernelCache(function, parallel=parallel, allocates=allocates)
    return cast(Function, compiled)


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    """Compile ``function`` with numba, using the options that all kernels share.

    Fast-math is off, so sums keep their order and products are not contracted into FMAs. There is
    no C wrapper and no reference counting, because kernels are not called from C and most of them
    allocate nothing. Generating them would take a sixth of the compilation time.

    Args:
        options: Options of ``numba.njit`` that replace or extend the shared ones.
    """
    compile_function: Any = njit
    arithmetic: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
    code: dict[str, Any] = {"pipeline_class": KernelCompiler, "no_cfunc_wrapper": True, "_nrt": False}
    return compile_function(**(arithmetic | code | options))(function)


def populate_array(array: Any, **fields: Any) -> None:
    """Generate code that sets the fields of a numba array.

    This is numba's function of the same name. It is imported late, because the import takes 20 ms
    and cached kernels do not need it.
    """
    from numba.np import arrayobj  # the import takes 20 ms

    populate: Any = arrayobj.populate_array
    populate(array, **fields)


def types_of(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the numba types of the arguments of a kernel call."""
    type_of: Any = typeof
    return tuple(type_of(argument) for argument in arguments)


def is_compiled(function: Any) -> bool:
    """Return whether a function is compiled by numba rather than plain Python."""
    return isinstance(function, Dispatcher)


def is_cached(function: Any, types: tuple[Any, ...]) -> bool:
    """Return whether a kernel is compiled for ``types``, in this process or in a cache file.

    Args:
        function: Kernel.
        types: Numba types of its arguments.
    """
    cache = function._cache
    has_file = isinstance(cache, KernelCache) and cache.contains(types, function.targetctx.codegen())
    return has_file or types in function.overloads


def compile_for(function: Any, types: tuple[Any, ...]) -> None:
    """Compile a kernel for some argument types, or load its code from the cache."""
    function.compile(types)


def build_of(function: Any) -> tuple[str, bool]:
    """Return the name of a compiled kernel and whether its loops run on all CPU cores.

    Returns:
        Name of the kernel; True if its loops run on all cores, False if they run on one.
    """
    return function._cache.name, function._cache.parallel
