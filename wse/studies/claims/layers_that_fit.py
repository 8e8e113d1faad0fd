"""The largest model that fits on a number of wafers, found by bisection."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wse.bisection import largest_passing
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


class LayersThatFit(NamedTuple):
    """The largest model that fits on a number of wafers: its layer and parameter counts."""

    layers: int
    parameters: int


def find_layers(model: str, wafers: int, dtype: str, on_work: Callable[[str], None]) -> LayersThatFit:
    """Search for the maximum number of layers that fit by compiling models of several sizes.

    The search bisects the numbers from one layer per wafer to the number whose weights fill the SRAM.

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

    layers = largest_passing(wafers, _layers_by_bytes(model, wafers, dtype) + 1, fits) or 0
    return LayersThatFit(layers, parameters[layers])


def _layers_by_bytes(model: str, wafers: int, dtype: str) -> int:
    """Return the number of layers whose weights fill the SRAM of the wafers, rounded down.

    The embedding and output head are ignored.
    """
    spec, wafer = bundled_spec(model), load_wafer(DEFAULT_WAFER)
    sram_bytes = wafers * wafer.mesh_rows * wafer.mesh_cols * wafer.sram_bytes_per_pe
    weights = weights_of(spec, dtype, "bfloat16")
    return int(sram_bytes / ((weights.always_bytes + weights.expert_bytes) / spec.layer_count))
