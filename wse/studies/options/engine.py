"""Options for the engine that does the work: processes on this computer, or a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from wse.errors import BadInput, UnknownName
from wse.option import Option, Panel

LOCAL: Final = "local"
RAY: Final = "ray"
ENGINES: Final = (LOCAL, RAY)


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Options for the place where work runs: processes on this computer, or a Ray cluster.

    Attributes:
        engine: Run in processes on this computer, or on a Ray cluster (pip install 'wse[ray]').
        ray_address: Ray cluster that this computer belongs to, as HOST:PORT or auto. Default: a
            cluster of this computer alone, for as long as the command runs.
    """

    PANEL: ClassVar[Panel] = "Machines"

    engine: Annotated[str, Option(metavar="local|ray", known_values=ENGINES)] = LOCAL
    ray_address: Annotated[str | None, Option(metavar="ADDRESS")] = None


THIS_MACHINE: Final = EngineChoice()
"""The default engine: processes on this computer."""


def check_engine(choice: EngineChoice) -> None:
    """Check an engine's name and, if specified, the address of its Ray cluster.

    Raises:
        UnknownName: The engine is neither ``local`` nor ``ray``.
        BadInput: An address is specified for an engine other than ``ray``, or it is invalid.
    """
    engine, ray_address = choice.engine, choice.ray_address
    if engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES, place="--engine")
    if ray_address is None:
        return
    if engine != RAY:
        raise BadInput(f"--ray-address {ray_address}: only a Ray cluster has an address; give --engine ray too")
    host, _, port = ray_address.rpartition(":")
    if ray_address != "auto" and not (host and "/" not in host and port.isdigit()):
        raise BadInput(f"--ray-address {ray_address!r}: give HOST:PORT, such as 10.0.0.1:6379, or auto")
