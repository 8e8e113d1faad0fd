"""GpuOptions: how GPUs serve a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.studies.options import known_names
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Options of GPUs that serve a model: their number, their software, and how the model is cut over them."""

    gpus: Annotated[
        int | None,
        Option(
            doc="The number of GPUs; auto: the fewest, as a power of two, that hold the model.",
            panel="GPUs",
            metavar="N|auto",
            none="auto",
        ),
    ] = None
    stack: Annotated[
        str | Path | None,
        Option(
            doc="The serving stack: a name of `wse gpus`, or a TOML file. Default: vllm.",
            panel="GPUs",
            metavar="NAME|FILE",
            known_values=known_names.stacks,
        ),
    ] = None
    parallelism: Annotated[
        str | None,
        Option(
            doc="Cut all matrices over the GPUs (default); or have experts whole on a GPU each; or besides each user's "
            "attention on one GPU.",
            panel="GPUs",
            metavar="tensor|experts|data",
        ),
    ] = None
