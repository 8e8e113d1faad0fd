"""Numba compiler pipelines for kernels, which need less time to compile than numba's own.

Numba's pipeline generates machine code for every function, including those that are only inlined
into kernels. It also optimises twice, first to remove reference counting. Kernels need neither, so
leaving both out reduces the compilation time by a quarter. The code is equally fast.
"""

from __future__ import annotations

from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

Library: Any = JITCodeLibrary
Lowering: Any = NativeLowering
Passes: Any = DefaultPassBuilder
register: Any = register_pass


class _KernelLibrary(Library):  # type: ignore[misc]  # numba's classes have no types
    """Numba code library of a kernel, which is optimised once, together with all linked functions.

    Numba's own library class also optimises each function separately before they are linked.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _PartLibrary(_KernelLibrary):
    """Numba code library of a function that is linked into kernels and never called from Python.

    Its code is optimised only as a part of these kernels.
    """

    def _optimize_final_module(self) -> None:
        """Do nothing. The code is optimised later, as a part of each kernel that contains it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Lowering(Lowering):  # type: ignore[misc]  # numba's classes have no types
    """Numba compiler pass that generates LLVM code into a library of class ``library_class``.

    Numba's own pass always uses numba's library class, which optimises every function.
    """

    library_class: Any

    def run_pass(self, state: Any) -> bool:
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register(mutates_CFG=True, analysis_only=False)
class _KernelLowering(_Lowering):
    """Numba compiler pass that generates the LLVM code of functions that Python calls (kernels)."""

    _name = "kernel_lowering"
    library_class = _KernelLibrary


@register(mutates_CFG=True, analysis_only=False)
class _PartLowering(_Lowering):
    """Numba compiler pass that generates the LLVM code of functions that only kernels call."""

    _name = "part_lowering"
    library_class = _PartLibrary

    def run_pass(self, state: Any) -> bool:
        """Generate the function's LLVM code and register it for its callers.

        No entry point for calls from Python is created.
        """
        state.flags.no_compile = True
        super().run_pass(state)
        described, environment = state.cr.fndesc, state.cr.env
        module, name = described.lookup_module(), described.qualname
        entry = make_function(module, name, "", 0, environment, (state.library,))
        state.targetctx.insert_user_function(entry, described, [state.library])
        state.cr = state.cr._replace(cfunc=entry)
        return True


class KernelCompiler(CompilerBase):
    """Numba compiler for kernels: compiled functions that Python code calls directly.

    Functions that only kernels call are compiled by `PartCompiler`.
    """

    lowering: Any = _KernelLowering

    def define_pipelines(self) -> list[Any]:
        """Return numba's compiler pipeline, with its lowering pass (to LLVM code) replaced.

        Functions with ``prange`` loops keep numba's pipeline, which lowers these loops differently.
        """
        manager = Passes.define_nopython_pipeline(self.state)
        if self.state.flags.auto_parallel.enabled:  # ``prange`` loops need numba's own lowering
            return [manager]
        [lowering] = (i for i, (pass_class, _) in enumerate(manager.passes) if pass_class is Lowering)
        manager.passes[lowering] = self.lowering, manager.passes[lowering][1]
        manager.finalize()
        return [manager]


class PartCompiler(KernelCompiler):
    """Numba compiler for functions that only kernels call.

    It generates LLVM code, which is linked into the kernels and compiled to machine code with them.
    """

    lowering = _PartLowering
