"""How many tokens the experts of each layer got, of the prompt and generated, during a run or from its trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from wse_traces.read import Trace
from wse_traces.schema import PHASES

I64 = npt.NDArray[np.int64]

OF_PHASE = dict(zip(PHASES, ("prompt", "generated"), strict=True))


class ExpertLoad:
    """Sums of pairs by phase and layer."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[int, I64]] = {phase: {} for phase in PHASES}

    def add(self, phase: str, pairs: Mapping[int, I64]) -> None:
        """Count one pass."""
        held = self.totals[phase]
        for layer, found in pairs.items():
            held[layer] = held[layer] + found if layer in held else found.copy()

    @property
    def over_run(self) -> dict[int, I64]:
        """By layer, int64 ``[experts]``: tokens of both phases."""
        first, second = self.totals.values()
        both = {at: first[at] + second[at] for at in first if at in second}
        return dict(sorted((first | second | both).items()))

    def by_layer(self) -> list[dict[str, Any]]:
        """Rows of ``layer``, and tokens by expert of each phase (``prompt``, ``generated``), by layer."""
        return [
            {
                "layer": layer,
                **{
                    OF_PHASE[phase]: held.get(layer, np.zeros_like(total)).tolist()
                    for phase, held in self.totals.items()
                },
            }
            for layer, total in self.over_run.items()
        ]

    def facts(self) -> dict[str, Any]:
        """``experts``: the load of each layer; nothing for a model without experts."""
        return {"experts": {"load": self.by_layer()}} if self.over_run else {}


def load_in(trace: Trace) -> ExpertLoad:
    """The load that a trace holds, as far as it goes."""
    load = ExpertLoad()
    rows, phase_of = trace.table("routed"), trace.column("schedules/phase")
    if not len(rows["expert"]):
        return load
    schedule = trace.column("passes/schedule")[rows["pass"]]
    experts = int(max(rows["expert"].max(), trace.column("experts/expert").max(initial=0))) + 1
    for code, phase in enumerate(PHASES):
        for layer in np.unique(rows["layer"]).tolist():
            mine = (phase_of[schedule] == code) & (rows["layer"] == layer)
            counts = np.bincount(rows["expert"][mine], rows["tokens"][mine], experts)
            load.add(phase, {layer: counts.astype(np.int64)})
    return load
