"""CostOptions: options for power and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """Options for the power and prices of wafers and GPUs. None means the bundled values."""

    economics: Annotated[
        str | Path | Mapping[str, Any] | None,
        Option(
            doc="Power and prices as a TOML file, instead of wse/data/economics.toml.",
            panel="Output",
            metavar="FILE",
        ),
    ] = None
    price: Annotated[
        str | Mapping[str, float] | None,
        Option(
            doc="USD per hour of one machine: wafer, or a name of `wse wafers` or `wse gpus`. Replaces the assumed "
            "price, its range, and that of --economics.",
            panel="Output",
            metavar="NAME=USD,...",
        ),
    ] = None
