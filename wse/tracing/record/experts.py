"""Recording of the experts that tokens are routed to, for each pass and for the whole run."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from wse.backends.fabric.expert_costs import Pairs
from wse.program.program import Program
from wse.tracing.expert_load import ExpertLoad
from wse_traces.writer.write import TraceWriter


class ExpertRecord:
    """Recorder of the experts that tokens are routed to, with totals over passes.

    Attributes:
        chosen: For each phase index and layer, int64 ``[experts]``: number of tokens routed to each
            expert.
        reached: For each phase index and layer, int64 ``[wafers]``: number of passes in which
            tokens were routed to experts on each wafer.
    """

    def __init__(self, writer: TraceWriter, program: Program) -> None:
        self._writer, self._program = writer, program
        self.chosen: defaultdict[int, dict[int, npt.NDArray[np.int64]]] = defaultdict(dict)
        self.reached: defaultdict[int, dict[int, npt.NDArray[np.int64]]] = defaultdict(dict)
        layers = zip(program.op_kinds, program.op_layers, program.op_stages, strict=True)
        self._stage_of = {layer: stage for kind, layer, stage in layers if kind == "experts"}

    def count(self, phase_index: int, pairs: Pairs, times: int) -> None:
        """Add passes with the same routing to the totals.

        Args:
            phase_index: Phase that ran.
            pairs: For each layer, int64 ``[experts]``: number of tokens routed to each expert in
                one pass.
            times: Number of passes.
        """
        totals = self.chosen[phase_index]
        for layer, tokens in pairs.items():
            totals[layer] = totals.get(layer, np.zeros_like(tokens)) + tokens * times
            self._reach(phase_index, layer, tokens, times)

    def write(self, pass_index: int, pairs: Pairs) -> None:
        """Write the routing of one pass: a row for each layer and expert with at least one token.

        Args:
            pass_index: Index of the pass.
            pairs: For each layer, int64 ``[experts]``: number of tokens routed to each expert.
        """
        for layer, tokens in pairs.items():
            experts = np.flatnonzero(tokens)
            row = {"pass": np.full(len(experts), pass_index), "layer": np.full(len(experts), layer)}
            self._writer.append("routed", {**row, "expert": experts, "tokens": tokens[experts]})

    def _reach(self, phase_index: int, layer: int, tokens: npt.NDArray[np.int64], times: int) -> None:
        """Count, for each wafer, the passes in which tokens were routed to an expert on it.

        Args:
            phase_index: Phase that ran.
            layer: Layer of the experts.
            tokens: int64 ``[experts]``: number of tokens routed to each expert in one pass.
            times: Number of passes.
        """
        stage, counts = self._stage_of[layer], self.reached[phase_index]
        mixture = self._program.mixtures[stage]
        assert mixture is not None
        counts.setdefault(layer, np.zeros(self._program.wafers, np.int64))
        counts[layer][list(self._program.chosen_wafers(stage, mixture.pairs_by_column(tokens)))] += times

    def finish(self, load: ExpertLoad) -> None:
        """Write the number of tokens routed to each expert over the run, including zeros."""
        for layer, tokens in load.over_run.items():
            row = {"layer": np.full(len(tokens), layer), "expert": np.arange(len(tokens)), "tokens": tokens}
            self._writer.append("expert_load", row)
