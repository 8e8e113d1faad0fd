"""Kinds of measurements in the table `inference`, such as decode steps."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement

_FITTED_NONE: Final = "none"
_BY_PHASE: Final = {
    "decode": ("decode steps", _FITTED_NONE),
    "decode-pipelined": ("forced tokens", _FITTED_NONE),
    "layer": ("parts of a layer", _FITTED_NONE),
    "layer-attention": ("parts of a layer", _FITTED_NONE),
    "layer-ffn": ("parts of a layer", _FITTED_NONE),
    "attention-phase": ("phases of a layer", _FITTED_NONE),
    "ffn-phase": ("phases of a layer", _FITTED_NONE),
    "prefill": ("prefill", _FITTED_NONE),
    "prefill-kernel": ("kernels of a PE", "5 rows"),
    "allreduce": ("all-reduces", "2 rows"),
    "hop": ("messages", "16 rows"),
    "kv-transfer": ("transfers of caches", "4 rows"),
    "sram": ("weights and caches in SRAM", _FITTED_NONE),
    "head": ("output head", _FITTED_NONE),
}
_COMPUTED_BYTES: Final = re.compile(r":\s*(weights|KV|K|V|score)|growth per|ingress|score", re.IGNORECASE)
"""Metrics of memory whose bytes are computed. All other bytes, for code and fixed buffers, are
constants of the profile."""

_PASS: Final = re.compile(r"\bpass:", re.IGNORECASE)


def kind_names(m: Measurement) -> tuple[str, str]:
    """Return the kind of a measurement, and how many rows of this kind constants were fitted to."""
    phase = m.text("phase").strip().lower()
    if (m.sizes.get("wafers") or 1) > 1:
        return "two wafers", _FITTED_NONE
    if _PASS.search(m.text("metric")):
        return "passes of a softmax", "4 rows"
    if phase == "sram" and not _COMPUTED_BYTES.search(m.text("metric")):
        return "SRAM with code and buffers", "59 numbers"
    if phase == "allreduce" and "decode step" in m.text("metric"):
        phase = "decode"
    return _BY_PHASE.get(phase, (phase, ""))
