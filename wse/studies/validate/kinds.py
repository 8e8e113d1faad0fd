"""Kinds of measurements, by which the accuracy table is grouped.

A kind states what was measured, and on which machine. A row of no known kind, such as a user's own
measurement, gets a kind named after its kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wse.models.configs.config import bundled_spec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.models import configuration_of
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.text_numbers import name_in
from wse.studies.validate.predictors.gpus import METHOD as GPU_METHOD
from wse.studies.validate.predictors.services import METHODS as SERVICE_METHODS

CODE_AND_BUFFERS: Final = "SRAM with code and buffers"
WAFERLLM_DECODE: Final = "decode of 8B and 72B"
WORK_OF_A_PE: Final = "work of a PE"
SERVICES: Final = "services"
GPUS: Final = "GPUs"

_COMPUTED_BYTES: Final = re.compile(r":\s*(weights|KV|K|V|score)|growth per|ingress|score", re.IGNORECASE)
"""Metrics of memory whose bytes are computed. All other bytes, for code and fixed buffers, are
constants of the profile."""

_PASS: Final = re.compile(r"\bpass:", re.IGNORECASE)


def kind_name(m: Measurement) -> str:
    """Return the name of the group of similar measurements that contains a measurement.

    This is only for measurements of the table type `inference`. `kind_of` accepts all measurements.
    """
    phase = m.text("phase").strip().lower()
    if (m.sizes.get("wafers") or 1) > 1:
        return "two wafers"
    if _PASS.search(m.text("metric")):
        return "passes of a softmax"
    if phase == "sram" and not _COMPUTED_BYTES.search(m.text("metric")):
        return CODE_AND_BUFFERS
    if phase == "allreduce" and "decode step" in m.text("metric"):
        phase = "decode"
    return name_in("phases", phase) or phase


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementKind:
    """A group of similar measurements, which forms one row of the accuracy table.

    Attributes:
        name: What was measured, such as ``MeshGEMV``.
        where: The machine, such as ``WSE-3 silicon``.
    """

    name: str
    where: str = ""


_SERVICES: Final = dict(zip(SERVICE_METHODS.values(), ("at launch", "later"), strict=True))


def kind_of(m: Measurement, method: str) -> MeasurementKind:
    """Return the group of similar measurements to which a measurement belongs.

    Args:
        m: The measurement.
        method: Prediction method. It distinguishes measurements of services and GPUs from those of
            kernels.
    """
    wafer = wafer_of(m)
    generation = "" if wafer is None else wafer.name.upper().replace("WSE", "WSE-")
    if method == GPU_METHOD:
        name = configuration_of(m.text("model"))
        is_mixture = name is not None and bundled_spec(name).experts is not None
        return MeasurementKind(name="mixtures of experts" if is_mixture else "dense models", where=GPUS)
    if method in _SERVICES:
        return MeasurementKind(name=SERVICES, where=f"{generation} {_SERVICES[method]}")
    if m.table == "inference":
        place = "linker" if m.text("kind").startswith("compiled") else "silicon"
        return MeasurementKind(name=kind_name(m), where=f"{generation} {place}".strip())
    if m.table == "public":  # rates of the research decode, as its users report them
        return MeasurementKind(name=WAFERLLM_DECODE, where=f"{generation} silicon")
    place = "simulator" if re.search("simulat", m.platform, re.IGNORECASE) else "silicon"
    kernel_kind = name_in("kernels", m.kernel)
    if kernel_kind is None:
        return MeasurementKind(name=m.kernel)
    return MeasurementKind(name=kernel_kind, where=f"{generation} {place}".strip())
