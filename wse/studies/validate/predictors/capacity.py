"""Minimum number of wafers for the models of published services, by software profile.

Code occupies SRAM on every PE. A model that fits on four wafers with the vendor's few hundred bytes
of code per PE needs several times that number with research kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from wse.hardware.load import load_software
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import replace_options
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.parts import ModelCapacity, WafersNeeded
from wse.studies.validate.predictors.prediction import unless_declined
from wse.studies.validate.predictors.services import PROFILE, service_request

RESEARCH_PROFILES: Final = ("tuned", "academic")


def wafers_needed(
    request: EstimateRequest, profiles: Iterable[str] = (PROFILE, *RESEARCH_PROFILES)
) -> tuple[WafersNeeded, ...]:
    """Return the minimum number of wafers on which a model fits, per software profile.

    Profiles differ in how much SRAM their code needs on each PE.

    Args:
        request: The model and its lengths. Its number of wafers and context are ignored.
        profiles: Names of the software profiles.
    """
    wafers = []
    for name in profiles:
        estimate = prepare_estimate(replace_options(request, software=name, wafers=None, context=None))
        code = load_software(name, estimate.whole.generation).code_bytes_per_pe
        wafers.append(WafersNeeded(software=name, code_bytes_per_pe=code, wafers=estimate.options.wafers))
    return tuple(wafers)


def capacity_of(rows: Iterable[Measurement]) -> tuple[ModelCapacity, ...]:
    """Compare the wafer counts that publications state with the minimum on which each model fits.

    Args:
        rows: Measurements. Rows that do not describe services, or do not state a wafer count, are
            skipped.

    Returns:
        One record per distinct model with a stated wafer count.
    """
    requests: dict[EstimateRequest, None] = {}  # a dict, to keep the order of the rows
    for row in rows:
        service = unless_declined(service_request, row)
        if service is not None and service.request.wafers is not None:
            requests.setdefault(replace(service.request, context=None))
    return tuple(
        ModelCapacity(
            model=str(request.model),
            wafer=str(request.machine.wafer),
            dtype=request.types.dtype,
            wafers=request.wafers,
            needed=wafers_needed(request),
        )
        for request in requests
    )
