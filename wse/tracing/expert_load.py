"""Counts of the tokens that the router of each layer sent to each expert, summed over passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np

from wse.arrays import I64
from wse.reports.result import Doc, Result
from wse_traces.schema import PHASES

TOKENS_OF: Final = dict(zip(PHASES, ("prompt", "generated", "verified"), strict=True))
"""For each phase, the name under which its tokens are reported."""


class LayerLoadResult(Result):
    """Number of tokens routed to each expert of one layer.

    Prompt tokens, generated tokens and tokens in verification passes are counted separately. Each
    count is a tuple with one item per expert.
    """

    layer: Annotated[int, Doc("index of the layer")]
    prompt: Annotated[tuple[int, ...], Doc("tokens of prompts that each expert got")]
    generated: Annotated[tuple[int, ...], Doc("generated tokens that each expert got")]
    verified: Annotated[
        tuple[int, ...] | None, Doc("tokens of verification passes that each expert got, if there were any")
    ] = None


class ExpertLoadResult(Result):
    """Number of tokens routed to each expert, for all layers that have experts.

    The counts show how evenly the router of a mixture-of-experts model uses its experts.
    """

    load: Annotated[tuple[LayerLoadResult, ...], Doc("one item for each layer with experts")]


class ExpertLoad:
    """Running totals of the tokens routed to each expert.

    Attributes:
        totals: For each phase and layer, int64 ``[experts]``: number of tokens routed to each
            expert so far. The keys consist of the phase and the layer index.
    """

    def __init__(self) -> None:
        self.totals: defaultdict[Any, dict[int, I64]] = defaultdict(dict)

    def add(self, phase: str | int, pairs: Mapping[int, I64]) -> None:
        """Add the token counts of one or more passes to the totals.

        Args:
            phase: Phase of the passes: "prefill", "decode" or "verify", or an index into
                ``Program.phases``.
            pairs: For each layer, int64 ``[experts]``: number of tokens routed to each expert.
        """
        totals = self.totals[phase]
        for layer, tokens in pairs.items():
            totals[layer] = totals[layer] + tokens if layer in totals else tokens.copy()

    @property
    def over_run(self) -> dict[int, I64]:
        """Number of tokens routed to each expert in all phases together: int64 ``[experts]`` per
        layer.

        The keys are layer indices.
        """
        layers = sorted({layer for totals in self.totals.values() for layer in totals})
        return {
            layer: np.sum([totals[layer] for totals in self.totals.values() if layer in totals], axis=0)
            for layer in layers
        }

    def result(self) -> ExpertLoadResult | None:
        """Return the totals of all layers, or None if the model has no experts.

        The keys of the totals must be names of phases. The tokens of verification passes are only
        included if there were such passes.
        """
        layers = [
            LayerLoadResult(
                layer=layer,
                **{
                    name: tuple(self.totals[phase].get(layer, np.zeros_like(total)).tolist())
                    for phase, name in TOKENS_OF.items()
                    if self.totals[phase] or phase != "verify"
                },
            )
            for layer, total in self.over_run.items()
        ]
        return ExpertLoadResult(load=tuple(layers)) if layers else None
