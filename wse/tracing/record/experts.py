"""The experts that the tokens of a run were routed to, written into a trace: pass by pass, and in all."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from wse.backends.fabric.expert_costs import Pairs
from wse.program.program import Program
from wse.tracing.expert_load import ExpertLoad
from wse_traces.write import TraceWriter


class ExpertRecord:
    """A writer of choices of experts that keeps totals over passes.

    ``chosen`` is int64 ``[experts]`` by phase index and layer.

    ``reached`` has in the same way how many passes chose experts of each wafer, int64 ``[wafers]``.
    """

    def __init__(self, writer: TraceWriter, program: Program) -> None:
        self._writer, self._program = writer, program
        self.chosen: defaultdict[int, dict[int, npt.NDArray[np.int64]]] = defaultdict(dict)
        self.reached: defaultdict[int, dict[int, npt.NDArray[np.int64]]] = defaultdict(dict)
        layers = zip(program.op_kinds, program.op_layers, program.op_stages, strict=True)
        self._stage_of = {layer: stage for kind, layer, stage in layers if kind == "experts"}

    def count(self, phase_index: int, pairs: Pairs, times: int) -> None:
        """Count several runs of a phase in which tokens chose experts according to ``pairs``."""
        totals = self.chosen[phase_index]
        for layer, tokens in pairs.items():
            totals[layer] = totals.get(layer, np.zeros_like(tokens)) + tokens * times
            self._reach(phase_index, layer, tokens, times)

    def write(self, pass_index: int, pairs: Pairs) -> None:
        """Write the experts that the tokens of one pass chose."""
        for layer, tokens in pairs.items():
            experts = np.flatnonzero(tokens)
            row = {"pass": np.full(len(experts), pass_index), "layer": np.full(len(experts), layer)}
            self._writer.append("routed", {**row, "expert": experts, "tokens": tokens[experts]})

    def _reach(self, phase_index: int, layer: int, tokens: npt.NDArray[np.int64], times: int) -> None:
        stage, counts = self._stage_of[layer], self.reached[phase_index]
        mixture = self._program.mixtures[stage]
        assert mixture is not None
        counts.setdefault(layer, np.zeros(self._program.wafers, np.int64))
        counts[layer][list(self._program.chosen_wafers(stage, mixture.pairs_by_column(tokens)))] += times

    def finish(self, load: ExpertLoad) -> None:
        """Write totals over the run, including experts that no token chose."""
        for layer, tokens in load.over_run.items():
            row = {"layer": np.full(len(tokens), layer), "expert": np.arange(len(tokens)), "tokens": tokens}
            self._writer.append("expert_load", row)
