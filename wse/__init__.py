"""wse: an emulator of SRAM-resident wafer-scale machines.

The commands are functions here: ``wse.estimate("llama-3-8b").decode.tokens_per_s_per_user``. See `wse.api`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wse.api import (
        claims,
        compare,
        estimate,
        explore,
        open_trace,
        pattern,
        run,
        scenario,
        serve_sim,
        sweep,
        validate,
        what_if,
    )

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "claims",
    "compare",
    "estimate",
    "explore",
    "open_trace",
    "pattern",
    "run",
    "scenario",
    "serve_sim",
    "sweep",
    "validate",
    "what_if",
]
"""Names of ``from wse import *``, which leaves Python's own ``compile`` in its place."""


def __getattr__(name: str) -> Any:
    """A function of `wse.api`, which is imported when one is first requested: every module of wse imports this one."""
    if name not in __dir__():
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module("wse.api"), name)


def __dir__() -> list[str]:
    return [*__all__, "compile"]
