"""GpuOptions: options for serving a model on GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.studies.options import known_names
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Options for the number of GPUs, their serving software, and how they share a model."""

    gpus: Annotated[
        int | None,
        Option(
            doc="Number of GPUs; auto: the smallest power of two on which the model fits.",
            panel="GPUs",
            metavar="N|auto",
            none="auto",
        ),
    ] = None
    stack: Annotated[
        str | Path | None,
        Option(
            doc="Serving stack: a name of `wse gpus`, or a TOML file. Default: vllm.",
            panel="GPUs",
            metavar="NAME|FILE",
            known_values=known_names.stacks,
        ),
    ] = None
    parallelism: Annotated[
        str | None,
        Option(
            doc="Split all matrices over the GPUs (tensor, the default); or store each expert on one GPU (experts); or "
            "in addition compute each user's attention on one GPU (data).",
            panel="GPUs",
            metavar="tensor|experts|data",
        ),
    ] = None
