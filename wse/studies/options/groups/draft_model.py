"""DraftModelOptions: options for the draft model and the place where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.studies.options import known_names
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModelOptions:
    """Options for the source of draft tokens (speculative decoding) and the place where it runs.

    The default source is a draft head, which is an extra layer of the model.
    """

    draft_model: Annotated[
        str | Path | None,
        Option(
            doc="Model that drafts tokens. Default: a draft head of one layer.",
            panel="Drafts",
            metavar="MODEL",
            known_values=known_names.models,
        ),
    ] = None
    draft_place: Annotated[
        str | None,
        Option(
            doc="Run the draft model on free PEs of the model's wafers (same, the default), on additional wafers "
            "(wafer), or on the host.",
            panel="Drafts",
            metavar="same|wafer|host",
        ),
    ] = None
