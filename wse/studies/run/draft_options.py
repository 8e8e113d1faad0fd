"""RunDraftOptions: options of speculative decoding in a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.hardware.quantity import TOKEN
from wse.studies.options import known_names
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDraftOptions:
    """Options of draft tokens in a run: the draft model, tokens per draft, place of the draft."""

    draft: Annotated[
        str | Path | None,
        Option(
            doc="Draft tokens ahead, which one pass of the model verifies: a smaller model of the same vocabulary, or "
            "ngram for what followed the text's last tokens before.",
            panel="Drafts",
            metavar="MODEL|ngram",
            known_values=known_names.drafts,
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        Option(
            doc="Tokens that are drafted for each pass. Default: 4, or what fits.",
            panel="Drafts",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    draft_place: Annotated[
        str | None,
        Option(
            doc="Where drafts are made: beside the model on the same wafer, on another wafer, or on the host. "
            "Default: same; of ngram where the host draws tokens, host.",
            panel="Drafts",
            metavar="same|wafer|host",
        ),
    ] = None
    draft_mesh: Annotated[
        str | None,
        Option(
            doc="The mesh of PEs of a draft model. Default: the fastest part of as many as the model has.",
            panel="Drafts",
            metavar="ROWSxCOLS",
        ),
    ] = None
    verify_tokens: Annotated[
        int | None,
        Option(
            doc="Generate by passes over so many tokens of the user: the next one, and those of --draft ngram. "
            "1: a pass for each user's next token, so that several users can be streams on several wafers.",
            panel="Drafts",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
