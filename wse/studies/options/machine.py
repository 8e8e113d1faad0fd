"""MachineOptions: the wafer, its software, and its dead PEs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.hardware.generations import DEFAULT_WAFER
from wse.studies.options import known_names
from wse.studies.options.option import Option

Values = tuple[tuple[str, float], ...]

DEFAULT_SOFTWARE: Final = "production"

WaferName = Annotated[
    str | Path,
    Option(
        doc="A name of `wse wafers`, or a TOML file.",
        panel="Wafer and mapping",
        metavar="NAME|FILE",
        known_values=known_names.wafers,
    ),
]
SoftwareName = Annotated[
    str | Path,
    Option(
        doc="The set of software costs: tuned, academic, ...",
        panel="Wafer and mapping",
        metavar="NAME|FILE",
        known_values=known_names.software,
    ),
]
MachineSettings = Annotated[
    tuple[str, ...],
    Option(
        doc="A number of the wafer or of software instead of its file's, or a factor of that, such as "
        "wafer.clock_hz=1.1GHz or wafer.clock_hz=x2; repeats.",
        panel="Wafer and mapping",
        metavar="wafer.KEY=VALUE|xFACTOR",
        flag="--set",
        repeats=True,
        read=str.strip,
        known_values=known_names.machine_numbers,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """The wafers that a model is placed on, and their software.

    ``wafer_values`` and ``software_values`` are numbers that take the place of those of ``wafer`` and ``software``, as
    those of ``settings`` do once a request is prepared.
    """

    wafer: WaferName = DEFAULT_WAFER
    mesh: Annotated[
        str | None,
        Option(
            doc="Use a smaller mesh of the wafer's PEs. Default: the whole wafer; for `run` the smallest square that "
            "holds the model, or the mesh of the listed regions.",
            panel="Wafer and mapping",
            metavar="ROWSxCOLS",
        ),
    ] = None
    software: SoftwareName = DEFAULT_SOFTWARE
    settings: MachineSettings = ()
    wafer_values: Values = ()
    software_values: Values = ()
    defects: Annotated[
        str | Path | None,
        Option(
            doc="Dead PEs and links: a CSV file of them, or the share of PEs that are dead, such as 1e-4.",
            panel="Wafer and mapping",
            metavar="FILE|RATE",
        ),
    ] = None
    defects_seed: Annotated[
        int, Option(doc="Seed of the dead PEs that a rate draws.", panel="Wafer and mapping", metavar="N")
    ] = 0
