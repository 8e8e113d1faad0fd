"""Parameters that fit on wafers, for samples of the SRAM that software uses."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer, provenance
from wse.models.configs.config import bundled_spec
from wse.studies.claims.certainty import Cases
from wse.studies.claims.laboratory import Laboratory
from wse.studies.compare.grid.streaming import weights_of
from wse.studies.options.placement import DEFAULT_SOFTWARE
from wse.studies.options.settings import SOFTWARE, WAFER

SIXTEEN_BITS: Final = "bfloat16"
_SOFTWARE_BYTES: Final = (
    (WAFER, DEFAULT_WAFER, "runtime_bytes_per_pe"),
    (WAFER, DEFAULT_WAFER, "task_table_bytes_per_pe"),
    (SOFTWARE, DEFAULT_SOFTWARE, "code_bytes_per_pe"),
    (SOFTWARE, DEFAULT_SOFTWARE, "stack_bytes_per_pe"),
)
"""Parts of a PE's SRAM that software uses and whose sizes are uncertain: prefix, file and key."""


def parameters_that_fit(lab: Laboratory, model: str, wafers: int, dtype: str) -> Cases:
    """Return how many parameters fit on wafers for the stated constants, then for each sample.

    For the stated constants, this is the parameter count of the largest model that compiles. In a
    sample, the software on each PE needs more or fewer bytes, which leaves fewer or more bytes for
    weights.

    Args:
        lab: Computations shared by the claims.
        model: Bundled model whose layers are counted.
        wafers: Number of wafers.
        dtype: Element type of the weights.
    """
    wafer, spec = load_wafer(DEFAULT_WAFER), bundled_spec(model)
    sizes = [lab.sampled(f"{prefix}{key}", provenance(file)[key]) for prefix, file, key in _SOFTWARE_BYTES]
    used_bytes = np.sum(sizes, axis=0)
    more_bytes = wafers * wafer.mesh_rows * wafer.mesh_cols * (used_bytes[0] - used_bytes)
    weights_bytes, sixteen_bit_bytes = (
        weights.always_bytes + weights.expert_bytes
        for weights in (weights_of(spec, each_type, SIXTEEN_BITS) for each_type in (dtype, SIXTEEN_BITS))
    )
    bytes_per_parameter = 2 * weights_bytes / sixteen_bit_bytes
    return np.asarray(lab.layers_that_fit(model, wafers, dtype).parameters + more_bytes / bytes_per_parameter)
