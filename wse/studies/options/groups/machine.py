"""MachineOptions: options for the wafer, its software profile and its dead PEs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.hardware.generations import DEFAULT_WAFER, VENDOR_LINK
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
        doc="Software profile, which sets the costs of software: tuned, academic, ..., or a TOML file.",
        panel="Wafer and mapping",
        metavar="NAME|FILE",
        known_values=known_names.software,
    ),
]
LinkName = Annotated[
    str | Path,
    Option(
        doc="Link between wafers: vendor (that of the wafer's file), sdk-host (through the host streams of the "
        "SDK), or a TOML file with its bandwidth and latency.",
        panel="Wafer and mapping",
        metavar="NAME|FILE",
        known_values=known_names.links,
    ),
]
MachineSettings = Annotated[
    tuple[str, ...],
    Option(
        doc="Replace a number of the wafer or software profile, or multiply it by a factor, such as "
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
    """Options for the wafer on which a model is placed, its software costs, and its dead PEs.

    Attributes:
        wafer_values: (name, number) pairs that override numbers of ``wafer``.
        software_values: (name, number) pairs that override numbers of ``software``.
        link: Link between wafers. When a request is prepared, its numbers are added to
            ``wafer_values``.
        settings: Values of ``--set``. When a request is prepared, they are converted to
            ``wafer_values`` and ``software_values``.
    """

    wafer: WaferName = DEFAULT_WAFER
    mesh: Annotated[
        str | None,
        Option(
            doc="Use a smaller mesh of the wafer's PEs. Default: the whole wafer; for `run`, the smallest square on "
            "which the model fits, or the mesh of the listed regions.",
            panel="Wafer and mapping",
            metavar="ROWSxCOLS",
        ),
    ] = None
    software: SoftwareName = DEFAULT_SOFTWARE
    link: LinkName = VENDOR_LINK
    settings: MachineSettings = ()
    wafer_values: Values = ()
    software_values: Values = ()
    defects: Annotated[
        str | Path | None,
        Option(
            doc="Dead PEs and links: a CSV file that lists them, or the fraction of dead PEs, such as 1e-4.",
            panel="Wafer and mapping",
            metavar="FILE|RATE",
        ),
    ] = None
    defects_seed: Annotated[
        int, Option(doc="Random seed that selects the dead PEs.", panel="Wafer and mapping", metavar="N")
    ] = 0
