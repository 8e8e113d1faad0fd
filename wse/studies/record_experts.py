"""Which experts the tokens of a run were routed to, written into a trace: pass by pass as they happen, and in all."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from wse.fabric.routed import Pairs
from wse.studies.expert_load import ExpertLoad
from wse_traces.write import TraceWriter


class ExpertRecord:
    """Keeps what it wrote: ``chosen`` by index of a phase and layer, int64 ``[experts]``, over all its passes."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self.chosen: defaultdict[int, dict[int, npt.NDArray[np.int64]]] = defaultdict(dict)

    def passed(self, phase_index: int, pass_index: int, pairs: Pairs) -> None:
        """One run of a phase."""
        totals = self.chosen[phase_index]
        for layer, tokens in pairs.items():
            totals[layer] = totals.get(layer, np.zeros_like(tokens)) + tokens
            used = np.flatnonzero(tokens)
            row = {"pass": np.full(len(used), pass_index), "layer": np.full(len(used), layer)}
            self._writer.append("routed", {**row, "expert": used, "tokens": tokens[used]})

    def finish(self, load: ExpertLoad) -> None:
        """Totals over the run, experts that got no token among them."""
        for layer, tokens in load.over_run.items():
            row = {"layer": np.full(len(tokens), layer), "expert": np.arange(len(tokens)), "tokens": tokens}
            self._writer.append("expert_load", row)
