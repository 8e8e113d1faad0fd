"""RaceRequest: the options of ``wse race``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.request import known_names
from wse.request.estimate_request import EstimateRequest
from wse.request.option import Option, OptionsOf

SLOWEST, FASTEST = 0.001, 1_000.0
"""Speeds of a race that can be asked for."""
USERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRequest:
    """A model on wafers and on GPUs, whose answers come side by side; ``base`` has the model, wafers and lengths."""

    base: Annotated[
        EstimateRequest,
        OptionsOf(
            without=(
                "batch", "verify_tokens", "draft", "draft_tokens", "draft_place", "acceptance", "gpu", "gpus",
                "new_tokens", "capacity", "sensitivity", "trace",
            )
        ),
    ]  # fmt: skip
    gpu: Annotated[
        str | Path,
        Option(
            doc="The GPU: a name of `wse gpus`, or a TOML file.",
            panel="GPUs",
            metavar="NAME|FILE",
            known_values=known_names.gpus,
        ),
    ] = "h200"
    gpus: Annotated[int, Option(doc="GPUs that share the model.", panel="GPUs", metavar="N")] = 8
    users: Annotated[
        int, Option(doc="Users among whom a user of the shared GPUs is one.", panel="GPUs", metavar="N")
    ] = USERS
    text: Annotated[
        str | Path | None,
        Option(doc="A text file that is the answer. Default: one about fast answers.", panel="Output", metavar="FILE"),
    ] = None
    speed: Annotated[float, Option(doc="How many times as fast as they would be.", panel="Output", metavar="F")] = 1.0
