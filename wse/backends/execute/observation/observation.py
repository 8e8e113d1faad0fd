"""Observation: what a backend reports while it executes a Program."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from wse.backends.execute.observation.outputs import Values


def _ignore_output(op: int, values: Values) -> None:
    """Do nothing with the outputs of an op."""


def _ignore_stored(count: int, total: int, name: str) -> None:
    """Do nothing with the progress of storing weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a backend reports while it executes a Program, and the functions that receive it.

    Attributes:
        watched: Indices of ops (nodes of the model graph) whose outputs are read.
        on_output: Function that receives the outputs of the watched ops
            (`wse.backends.execute.observation.outputs.Outputs`).
        on_stored: Function that receives the progress of storing weights
            (`wse.backends.execute.weight_storage.weights.store_weights`).
        profile: Whether every step is timed.
    """

    watched: Collection[int] = ()
    on_output: Callable[[int, Values], None] = _ignore_output
    on_stored: Callable[[int, int, str], None] = _ignore_stored
    profile: bool = False


NO_OBSERVATION: Final = Observation()
"""Observation of a run that reports nothing."""
