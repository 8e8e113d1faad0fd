"""The load of experts: how many tokens each got, of the prompt and generated, added up pass by pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt

from wse.reports.result import Doc, Result
from wse_traces.schema import PHASES

I64 = npt.NDArray[np.int64]

TOKENS_OF: Final = dict(zip(PHASES, ("prompt", "generated", "verified"), strict=True))
"""The name of the tokens of a phase."""


@dataclass(frozen=True, kw_only=True)
class LayerLoadResult(Result):
    """The tokens that each expert of a layer got."""

    layer: Annotated[int, Doc("index of the layer")]
    prompt: Annotated[tuple[int, ...], Doc("tokens of prompts by expert")]
    generated: Annotated[tuple[int, ...], Doc("generated tokens by expert")]
    verified: Annotated[
        tuple[int, ...] | None, Doc("tokens of passes over several of one user, by expert; where there were any")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExpertLoadResult(Result):
    """The load of experts."""

    load: Annotated[tuple[LayerLoadResult, ...], Doc("by layer with experts")]


class ExpertLoad:
    """Tokens by phase, layer and expert, added up pass by pass."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[int, I64]] = {phase: {} for phase in PHASES}

    def add(self, phase: str, pairs: Mapping[int, I64]) -> None:
        """Count one pass, or some: by layer the tokens of each expert, int64 ``[experts]``."""
        totals = self.totals[phase]
        for layer, tokens in pairs.items():
            totals[layer] = totals[layer] + tokens if layer in totals else tokens.copy()

    @property
    def over_run(self) -> dict[int, I64]:
        """The tokens of all phases by layer, int64 ``[experts]``."""
        layers = sorted({layer for totals in self.totals.values() for layer in totals})
        return {
            layer: np.sum([totals[layer] for totals in self.totals.values() if layer in totals], axis=0)
            for layer in layers
        }

    def result(self) -> ExpertLoadResult | None:
        """Return the load of each layer; None for a model without experts."""
        layers = [
            LayerLoadResult(
                layer=layer,
                **{
                    TOKENS_OF[phase]: tuple(tokens.get(layer, np.zeros_like(total)).tolist())
                    for phase, tokens in self.totals.items()
                    if tokens or phase != "verify"
                },
            )
            for layer, total in self.over_run.items()
        ]
        return ExpertLoadResult(load=tuple(layers)) if layers else None
