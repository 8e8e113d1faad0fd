"""RunDraftOptions: speculative-decoding options of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.hardware.quantity import TOKEN
from wse.studies.options import known_names
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDraftOptions:
    """Speculative-decoding options of a run: the source and number of draft tokens."""

    draft: Annotated[
        str | Path | None,
        Option(
            doc="Propose draft tokens, which one pass of the model verifies. They come from a smaller model with "
            "the same vocabulary, or from ngram: what followed the last tokens earlier in the text.",
            panel="Drafts",
            metavar="MODEL|ngram",
            known_values=known_names.drafts,
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        Option(
            doc="Draft tokens per verification pass. Default: 4, or as many as fit.",
            panel="Drafts",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    draft_place: Annotated[
        str | None,
        Option(
            doc="Where drafts are made: next to the model on the same wafer, on another wafer, or on the host. "
            "Default: same; for ngram with tokens drawn by the host, host.",
            panel="Drafts",
            metavar="same|wafer|host",
        ),
    ] = None
    draft_mesh: Annotated[
        str | None,
        Option(
            doc="Mesh of PEs of a draft model. Default: the fastest part of a mesh as large as the model's.",
            panel="Drafts",
            metavar="ROWSxCOLS",
        ),
    ] = None
    verify_tokens: Annotated[
        int | None,
        Option(
            doc="Generate by verification passes over this number of tokens of a user: the next token, and draft "
            "tokens of --draft ngram. 1: a pass for each user's next token, so that several users can be "
            "streams on several wafers.",
            panel="Drafts",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
