"""The load of experts: how many tokens each got, of the prompt and generated, during a run or from its trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt

from wse.reports.result import Doc, Result
from wse_traces.groups import group_sums
from wse_traces.read import Columns, Trace
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
        """The load of each layer; None for a model without experts."""
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


def load_in(trace: Trace) -> ExpertLoad:
    """The load that a trace holds, as far as it goes."""
    load = ExpertLoad()
    rows = trace.table("routed")
    if not len(rows["expert"]):
        return load
    phase = trace.column("schedules/phase")[trace.column("passes/schedule")[rows["pass"]]]
    experts = int(max(rows["expert"].max(), trace.column("experts/expert").max(initial=0))) + 1
    for code, name in enumerate(PHASES):
        load.add(name, tokens_by_layer({key: column[phase == code] for key, column in rows.items()}, experts))
    return load


def tokens_by_layer(rows: Columns, experts: int) -> dict[int, I64]:
    """Add up rows of ``layer``, ``expert`` and ``tokens``: by layer, ascending, int64 ``[experts]``."""
    layers, group = np.unique(rows["layer"], return_inverse=True)
    sums = group_sums(rows["tokens"], group * experts + rows["expert"], len(layers) * experts)
    return dict(zip(layers.tolist(), sums.reshape(len(layers), experts), strict=True))
