"""CompileRequest: the options of ``wse compile``, a subset of the ``wse estimate`` options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import OptionsOf

NOT_OF_PLACEMENT: Final = (
    *("draft", "draft_model", "draft_place", "gpu", "gpus", "stack", "parallelism"),
    *("economics", "price", "network", "sensitivity", "uncertainty", "most_users", "trace"),
)
"""Estimate options that do not affect the placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """Options of ``wse compile``, which are the ``wse estimate`` options that affect placement."""

    base: Annotated[EstimateRequest, OptionsOf(without=NOT_OF_PLACEMENT)] = field(default_factory=EstimateRequest)
