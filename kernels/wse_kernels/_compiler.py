"""Numba's pipeline for kernels: code is optimised once, and none is made of what is only written out in kernels.

Numba's own pipeline makes machine code of every function, those that kernels take into theirs among them, and optimises
twice, first to find references that need no count. Nothing counts references here. Without these a kernel compiles in
three quarters of the time, to code that is as fast.
"""

from __future__ import annotations

from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

__all__ = ["KernelCompiler", "PartCompiler"]

Library: Any = JITCodeLibrary
Lowering: Any = NativeLowering
Passes: Any = DefaultPassBuilder
register: Any = register_pass


class _KernelLibrary(Library):  # type: ignore[misc]  # numba's classes have no types
    """Code that is optimised when it is whole."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _PartLibrary(_KernelLibrary):
    """Code that others take into theirs, and that is never run from here."""

    def _optimize_final_module(self) -> None:
        """Do nothing: what takes it optimises it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Lowering(Lowering):  # type: ignore[misc]  # numba's classes have no types
    """The making of a function's instructions, into a library of the class that is named here."""

    library_class: Any

    def run_pass(self, state: Any) -> bool:
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register(mutates_CFG=True, analysis_only=False)
class _KernelLowering(_Lowering):
    """The lowering of functions that Python calls."""

    _name = "kernel_lowering"
    library_class = _KernelLibrary


@register(mutates_CFG=True, analysis_only=False)
class _PartLowering(_Lowering):
    """The lowering of functions that kernels alone call."""

    _name = "part_lowering"
    library_class = _PartLibrary

    def run_pass(self, state: Any) -> bool:
        """Lower the function, and make it known to callers by an object without an address that Python could call."""
        state.flags.no_compile = True
        super().run_pass(state)
        described, environment = state.cr.fndesc, state.cr.env
        module, name = described.lookup_module(), described.qualname
        entry = make_function(module, name, "", 0, environment, (state.library,))
        state.targetctx.insert_user_function(entry, described, [state.library])
        state.cr = state.cr._replace(cfunc=entry)
        return True


class KernelCompiler(CompilerBase):
    """The pipeline of functions that Python calls."""

    lowering: Any = _KernelLowering

    def define_pipelines(self) -> list[Any]:
        """Numba's pipeline, with this class's lowering in the place of numba's."""
        manager = Passes.define_nopython_pipeline(self.state)
        if self.state.flags.auto_parallel.enabled:  # loops over ``prange`` have a lowering of their own
            return [manager]
        [lowering] = (i for i, (one, _) in enumerate(manager.passes) if one is Lowering)
        manager.passes[lowering] = self.lowering, manager.passes[lowering][1]
        manager.finalize()
        return [manager]


class PartCompiler(KernelCompiler):
    """The pipeline of functions that kernels alone call."""

    lowering = _PartLowering
