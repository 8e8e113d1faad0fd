"""How many wafers the models of services need, with the vendor's code and with other people's beside it.

Code counts against the SRAM of every PE, so a model that four wafers hold beside the vendor's few hundred bytes of code
needs several times as many beside research kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from wse.hardware.load import load_software
from wse.report.as_json import Report
from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import prepare_estimate
from wse.validation.measured.measurements import Measurement
from wse.validation.predictors.services import PROFILE, Asked, asked_of

OTHERS: Final = ("tuned", "academic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The fewest wafers that hold a model, with the cache of a prompt and its answer, beside a profile's code."""

    software: str
    code_bytes_per_pe: int
    wafers: int


def needed(request: EstimateRequest, profiles: Iterable[str] = (PROFILE, *OTHERS)) -> list[Needed]:
    """What each profile needs for a request's model and lengths."""
    found = []
    for name in profiles:
        prepared = prepare_estimate(replace(request, software=name, wafers=None, context=None))
        code = load_software(name, prepared.whole.generation).code_bytes_per_pe
        found.append(Needed(software=name, code_bytes_per_pe=code, wafers=prepared.options.wafers))
    return found


def capacity_facts(rows: Iterable[Measurement]) -> list[Report]:
    """``capacity``: of each model of which a row states the wafers, those, and the fewest by software."""
    stated: dict[EstimateRequest, None] = {}
    for row in rows:
        asked = asked_of(row)
        if isinstance(asked, Asked) and asked.request.wafers is not None:
            stated.setdefault(replace(asked.request, context=None))
    return [
        {
            "model": request.model,
            "wafer": request.wafer,
            "dtype": request.dtype,
            "wafers": request.wafers,
            "needed": [
                {"software": each.software, "code_bytes_per_pe": each.code_bytes_per_pe, "wafers": each.wafers}
                for each in needed(request)
            ],
        }
        for request in stated
    ]
