"""CompileRequest: the options of ``wse compile``, which are those of ``wse estimate`` that decide the placement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import OptionsOf

NOT_OF_PLACEMENT: Final = (
    *("draft", "draft_model", "draft_place", "gpu", "gpus", "stack", "parallelism"),
    *("economics", "price", "network", "sensitivity", "trace"),
)
"""Options of an estimate that leave the placement as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """A placement to show: that of the estimate ``base``."""

    base: Annotated[EstimateRequest, OptionsOf(without=NOT_OF_PLACEMENT)] = field(default_factory=EstimateRequest)
