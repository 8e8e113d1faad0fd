"""Observation: what a backend reports while it executes a Program."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from wse.backends.execute.observation.outputs import Values
from wse.reports.progress import ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Reports that a backend makes while it executes a Program, and the functions that receive them.

    Attributes:
        watched: Indices of ops (nodes of the model graph) whose outputs are read.
        on_output: Function that receives the outputs of the watched ops
            (`wse.backends.execute.observation.outputs.Outputs`).
        on_stored: Function that receives the progress of storing weights
            (`wse.backends.execute.weight_storage.weights.store_weights`).
        profile: Whether every step is timed.
    """

    watched: Collection[int] = ()
    on_output: Callable[[int, Values], None] = ignore
    on_stored: Callable[[int, int, str], None] = ignore
    profile: bool = False


NO_OBSERVATION: Final = Observation()
"""Observation of a run that reports nothing."""
