"""Capacity: the wafers that the models of services need beside the vendor's code, and beside that of others.

Code counts against the SRAM of every PE, so a model that four wafers hold beside the vendor's few hundred bytes of code
needs several times as many beside research kernels.
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
from wse.studies.validate.predictors.services import PROFILE, ServiceRequest, service_request

OTHERS: Final = ("tuned", "academic")


def wafers_needed(request: EstimateRequest, profiles: Iterable[str] = (PROFILE, *OTHERS)) -> tuple[WafersNeeded, ...]:
    """Return the fewest wafers for a request's model and lengths, by software profile."""
    wafers = []
    for name in profiles:
        prepared = prepare_estimate(replace_options(request, software=name, wafers=None, context=None))
        code = load_software(name, prepared.whole.generation).code_bytes_per_pe
        wafers.append(WafersNeeded(software=name, code_bytes_per_pe=code, wafers=prepared.options.wafers))
    return tuple(wafers)


def capacity_of(rows: Iterable[Measurement]) -> tuple[ModelCapacity, ...]:
    """Return each model of which a row states the wafers, with those, and the fewest by software."""
    stated: dict[EstimateRequest, None] = {}
    for row in rows:
        service = service_request(row)
        if isinstance(service, ServiceRequest) and service.request.wafers is not None:
            stated.setdefault(replace(service.request, context=None))
    return tuple(
        ModelCapacity(
            model=str(request.model),
            wafer=str(request.machine.wafer),
            dtype=request.types.dtype,
            wafers=request.wafers,
            needed=wafers_needed(request),
        )
        for request in stated
    )
