"""DraftModelOptions: the model that drafts, and where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.studies.options import known_names
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModelOptions:
    """The model that drafts tokens, and where it runs. None stands for a head of one layer, on the PEs of the model."""

    draft_model: Annotated[
        str | Path | None,
        Option(
            doc="The model that drafts. Default: a head of one layer of the model.",
            panel="Drafts",
            metavar="MODEL",
            known_values=known_names.models,
        ),
    ] = None
    draft_place: Annotated[
        str | None,
        Option(
            doc="Where the draft model runs: on PEs that the model leaves free, on wafers of its own, which are "
            "added to those of the model, or on the host. Default: same.",
            panel="Drafts",
            metavar="same|wafer|host",
        ),
    ] = None
