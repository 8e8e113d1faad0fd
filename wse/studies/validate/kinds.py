"""Kinds of measurements, by which the accuracy table is grouped.

A kind states what was measured, on which machine, and how many of its rows were used to fit
constants. A row of no known kind, such as a user's own measurement, gets a kind named after its
kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.text_numbers import configuration_of
from wse.studies.validate.predictors.gpus import METHOD as GPU_METHOD
from wse.studies.validate.predictors.services import METHODS as SERVICE_METHODS

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


FITTED_PART: Final = "a part"
FITTED_NONE: Final = "none"
SERVICES: Final = "services"
GPUS: Final = "GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementKind:
    """A group of similar measurements, which forms one row of the accuracy table.

    Attributes:
        name: What was measured, such as ``MeshGEMV``.
        where: The machine, such as ``WSE-3 silicon``.
        fitted: Description of the measurements that were used to fit model constants, such as ``6
            rows``. Empty if unknown.
    """

    name: str
    where: str = ""
    fitted: str = ""


_SERVICES: Final = dict(zip(SERVICE_METHODS.values(), (("at launch", "2 rows"), ("later", FITTED_NONE)), strict=True))
_KERNELS: Final = tuple(
    (re.compile(pattern), name, fitted_rows)
    for pattern, name, fitted_rows in (
        (r"^(all)?reduce$|^broadcast$", "reduces and broadcasts", FITTED_PART),
        (r"^MeshGEMV", "MeshGEMV", FITTED_PART),
        (r"^MeshGEMM \(column", "MeshGEMM by columns", FITTED_NONE),
        (r"^MeshGEMM", "MeshGEMM", FITTED_PART),
        (r"^Shift kernel", "region shifts", FITTED_PART),
        (r"\bdecode\b", "decode of 8B and 72B", "6 rows"),
        (r"\bprefill\b", "prefill of 8B and 72B", FITTED_NONE),
        (r"^stencil", "stencils", FITTED_NONE),
        (r"^point-to-point$", "words between PEs", FITTED_PART),
        (r"^(copy|fma) |^PE core$|^GEMM local", "work of a PE", FITTED_PART),
    )
)


def kind_of(m: Measurement, method: str) -> MeasurementKind:
    """Return the group of similar measurements to which a measurement belongs.

    Args:
        m: The measurement.
        method: Prediction method, which distinguishes services and GPUs from kernels.
    """
    wafer = wafer_of(m)
    generation = "" if wafer is None else wafer.name.upper().replace("WSE", "WSE-")
    if method == GPU_METHOD:
        name = configuration_of(m.text("model"))
        name = "mixtures of experts" if name is not None and _is_mixture(name) else "dense models"
        return MeasurementKind(name=name, where=GPUS, fitted=FITTED_PART)
    if method in _SERVICES:
        when, fitted_rows = _SERVICES[method]
        return MeasurementKind(name=SERVICES, where=f"{generation} {when}", fitted=fitted_rows)
    if m.table == "inference":
        name, fitted_rows = kind_names(m)
        place = "linker" if m.text("kind").startswith("compiled") else "silicon"
        return MeasurementKind(name=name, where=f"{generation} {place}".strip(), fitted=fitted_rows)
    if m.table == "public":  # rates of the research decode, as its users report them
        return MeasurementKind(name="decode of 8B and 72B", where=f"{generation} silicon", fitted="6 rows")
    place = "simulator" if re.search("simulat", m.platform, re.IGNORECASE) else "silicon"
    for pattern, name, fitted_rows in _KERNELS:
        if pattern.search(m.kernel):
            return MeasurementKind(name=name, where=f"{generation} {place}".strip(), fitted=fitted_rows)
    return MeasurementKind(name=m.kernel)


@cache
def _is_mixture(name: str) -> bool:
    return read_config(CONFIGURATIONS[name]).experts is not None
