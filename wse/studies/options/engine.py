"""The options of what works on a command: the processes of this machine, or a Ray cluster."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from wse.errors import BadInput, UnknownName
from wse.studies.options.option import Option

LOCAL: Final = "local"
RAY: Final = "ray"
ENGINES: Final = (LOCAL, RAY)

EngineName = Annotated[
    str,
    Option(
        doc="What works: this machine's own processes, or a Ray cluster (pip install 'wse[ray]').",
        panel="Machines",
        metavar="local|ray",
        known_values=ENGINES,
    ),
]
RayAddress = Annotated[
    str | None,
    Option(
        doc="The Ray cluster that this machine belongs to, as HOST:PORT or auto. Default: one on this machine alone, "
        "for as long as the command runs.",
        panel="Machines",
        metavar="ADDRESS",
    ),
]


class EngineChoice(NamedTuple):
    """An engine by its name, and the address of its cluster, where it has one."""

    name: str = LOCAL
    ray_address: str | None = None


THIS_MACHINE: Final = EngineChoice()


def check_engine(choice: EngineChoice) -> None:
    """Check the names of an engine and of a cluster.

    Raises:
        UnknownName: there is no such engine.
        BadInput: an address is given without the engine that needs one, or is none.
    """
    engine, ray_address = choice
    if engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES, where="--engine")
    if ray_address is None:
        return
    if engine != RAY:
        message = f"--ray-address {ray_address}: is of a Ray cluster; give --engine ray too"
        raise BadInput(message)
    host, _, port = ray_address.rpartition(":")
    if ray_address != "auto" and not (host and "/" not in host and port.isdigit()):
        message = f"--ray-address {ray_address!r}: give HOST:PORT, such as 10.0.0.1:6379, or auto"
        raise BadInput(message)
