"""Calls of compiled kernels: a function and the arguments that it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wse_kernels.library import compiled

Call = tuple[Callable[..., None], tuple[Any, ...]]

WORTH_WAKING: Final = 1_000_000
"""Element operations above which a step is spread over the cores; below, waking them costs more than it saves."""


def launch(name: str, work: int) -> Callable[..., None]:
    """The kernel of that name, spread over the cores where it does so many element operations that it pays."""
    kernel = compiled(name)
    return kernel.parallel if work > WORTH_WAKING else kernel.serial
