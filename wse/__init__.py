"""wse: an emulator of SRAM-resident wafer-scale machines.

Every command is also a function of this package, such as ``wse.estimate("llama-3-8b")``. See
`wse.api`.
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
        serve,
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
    "serve",
    "serve_sim",
    "sweep",
    "validate",
    "what_if",
]
"""Names that ``from wse import *`` imports, without ``compile``, which would hide the built-in."""


def __getattr__(name: str) -> Any:
    """Return the object with a public name from `wse.api`, which is imported on first use.

    Every module of wse imports this package. Importing `wse.api` here would make each of those
    imports slow.
    """
    if name not in __dir__():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("wse.api"), name)


def __dir__() -> list[str]:
    """Return the public names of the package, including ``compile``."""
    return [*__all__, "compile"]
