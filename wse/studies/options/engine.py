"""Options for the engine that does the work: processes on this machine, or a Ray cluster."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from wse.errors import BadInput, UnknownName
from wse.option import Option

LOCAL: Final = "local"
RAY: Final = "ray"
ENGINES: Final = (LOCAL, RAY)

EngineName = Annotated[
    str,
    Option(
        doc="Work in processes of this machine, or on a Ray cluster (pip install 'wse[ray]').",
        panel="Machines",
        metavar="local|ray",
        known_values=ENGINES,
    ),
]
RayAddress = Annotated[
    str | None,
    Option(
        doc="Ray cluster that this machine belongs to, as HOST:PORT or auto. Default: a cluster of this machine alone, "
        "for as long as the command runs.",
        panel="Machines",
        metavar="ADDRESS",
    ),
]


class EngineChoice(NamedTuple):
    """The place where work runs: processes on this machine, or a Ray cluster.

    Attributes:
        name: ``local`` for this machine, or ``ray`` for a cluster.
        ray_address: Address of an existing cluster, as HOST:PORT or ``auto``. If None, ``ray``
            starts a cluster on this machine alone.
    """

    name: str = LOCAL
    ray_address: str | None = None


THIS_MACHINE: Final = EngineChoice()
"""The default engine: processes on this machine."""


def check_engine(choice: EngineChoice) -> None:
    """Check an engine's name and, if specified, the address of its Ray cluster.

    Raises:
        UnknownName: The engine is neither ``local`` nor ``ray``.
        BadInput: An address is specified for an engine other than ``ray``, or it is invalid.
    """
    engine, ray_address = choice
    if engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES, place="--engine")
    if ray_address is None:
        return
    if engine != RAY:
        raise BadInput(f"--ray-address {ray_address}: only a Ray cluster has an address; give --engine ray too")
    host, _, port = ray_address.rpartition(":")
    if ray_address != "auto" and not (host and "/" not in host and port.isdigit()):
        raise BadInput(f"--ray-address {ray_address!r}: give HOST:PORT, such as 10.0.0.1:6379, or auto")
