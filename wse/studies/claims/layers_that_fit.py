"""The largest model that fits on a number of wafers, found by adding or removing layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from wse.compiler.search.search import Breadth
from wse.errors import DoesNotFit
from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import bundled_spec
from wse.models.tensors.model_tensors import parameter_count
from wse.studies.compare.grid.streaming import weights_of
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

FILL: Final = 0.85
"""Fraction of SRAM that weights fill at the start of the search for the maximum number of
layers."""


class LayersThatFit(NamedTuple):
    """The largest model that fits on a number of wafers: its layer and parameter counts."""

    layers: int
    parameters: int


def find_layers(model: str, wafers: int, dtype: str, on_work: Callable[[str], None]) -> LayersThatFit:
    """Search for the maximum number of layers that fit by compiling models of several sizes.

    1. Start with the number of layers whose weights fill the fraction `FILL` of the SRAM. Go up
       or down with doubling steps until one number fits and another does not.
    2. Bisect the interval between these two numbers until they are consecutive.

    Args:
        model: Name of a bundled model. Layers are added to or removed from it.
        wafers: Number of wafers.
        dtype: Element type of the weights.
        on_work: Called with a description before each compilation.
    """
    config = json.loads(CONFIGURATIONS[model].read_text(encoding="utf-8"))
    parameters: dict[int, int] = {0: 0}

    def fits(layers: int) -> bool:
        """Return whether a model with ``layers`` layers fits on the wafers.

        If the model fits, its number of parameters is stored for the result.
        """
        with TemporaryDirectory() as folder:
            path = Path(folder, "config.json")
            path.write_text(json.dumps({**config, "num_hidden_layers": layers}), encoding="utf-8")
            on_work(f"{layers} layers of {model} as {dtype} on {wafers}")
            request = make_request(EstimateRequest, model=str(path), wafers=wafers, dtype=dtype, mapping="auto")
            try:
                estimate = prepare_estimate(request)
                compile_fastest(estimate, Breadth(finalists=1))
            except DoesNotFit:
                return False
            parameters[layers] = parameter_count(estimate.spec)
            return True

    low, high, step = 0, None, 1
    layers = max(wafers, _layers_by_bytes(model, wafers, dtype))
    while high is None or high - low > 1:
        if fits(layers):
            low = layers
        else:
            high = layers
        if high is None:
            layers, step = low + step, 2 * step
        elif low == 0:
            layers, step = max(wafers, high - step), 2 * step
            if high == wafers:
                break
        else:
            layers = (low + high) // 2
    return LayersThatFit(low, parameters[low])


def _layers_by_bytes(model: str, wafers: int, dtype: str) -> int:
    """Return the number of layers whose weights fill the fraction `FILL` of the wafers' SRAM.

    A search for the maximum number of layers starts from this number. The embedding and output head
    are ignored.
    """
    spec, wafer = bundled_spec(model), load_wafer(DEFAULT_WAFER)
    weight_room_bytes = FILL * wafers * wafer.mesh_rows * wafer.mesh_cols * wafer.sram_bytes_per_pe
    weights = weights_of(spec, dtype, "bfloat16")
    return int(weight_room_bytes / ((weights.always_bytes + weights.expert_bytes) / spec.layer_count))
