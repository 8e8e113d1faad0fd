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
"""Users of shared GPUs where neither they nor a load was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRequest:
    """A model on wafers and on GPUs, whose answers come side by side; ``base`` has the model, wafers and lengths."""

    base: Annotated[
        EstimateRequest,
        OptionsOf(
            without=(
                "batch", "verify_tokens", "gpu", "gpus", "new_tokens", "capacity", "sensitivity", "trace",
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
        int | None,
        Option(
            doc="Users among whom a user of the shared GPUs is one, without a queue. Default: 64.",
            panel="GPUs",
            metavar="N",
        ),
    ] = None
    load: Annotated[
        float | None,
        Option(
            doc="Share wafers and GPUs with requests that come at random, as a share of those that each can serve: "
            "with the queue that this makes.",
            panel="Serving",
            metavar="F",
        ),
    ] = None
    rate: Annotated[
        float | None, Option(doc="The same, as requests a second to each machine.", panel="Serving", metavar="R")
    ] = None
    text: Annotated[
        str | Path | None,
        Option(doc="A text file that is the answer. Default: one about fast answers.", panel="Output", metavar="FILE"),
    ] = None
    speed: Annotated[float, Option(doc="How many times as fast as they would be.", panel="Output", metavar="F")] = 1.0
