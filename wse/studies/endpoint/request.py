"""EndpointRequest: the options of ``wse serve``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar, Final

from wse.option import Option, Panel
from wse.studies.options.option import OptionsOf
from wse.studies.serve_sim.options import PromisedTimes, TrafficOptions
from wse.studies.serve_sim.request import ServeRequest

ECHO: Final = "echo"
STORY: Final = "story"
LOCAL_HOST: Final = "127.0.0.1"
_SIMULATED: Final = (
    *(option.name for group in (TrafficOptions, PromisedTimes) for option in fields(group)),
    "users",
    "think_time",
    "replicas",
    "economics",
    "price",
    "batching",
    "batch_wait",
)
"""Options of ``wse serve-sim`` that have no meaning for an endpoint, or are not supported there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRequest:
    """Options of ``wse serve``: the simulated machine, the address, and the text of answers.

    Attributes:
        replicas: Number of identical machines that share the requests.
        host: Address to listen on; 0.0.0.0 makes the endpoint available to other computers.
        port: Port to listen on; 0 for a free one.
        speed: Simulated seconds per second of real time. With 0.1, all tokens come ten times as
            slowly.
        text: Text of the answers: the prompt (echo), stories that the bundled model writes at the
            start (story), or the content of a file. A token is four characters.
    """

    PANEL: ClassVar[Panel] = "Serving"

    service: Annotated[ServeRequest, OptionsOf(without=_SIMULATED)] = field(default_factory=ServeRequest)
    replicas: Annotated[int, Option()] = 1
    host: Annotated[str, Option(metavar="ADDRESS")] = LOCAL_HOST
    port: Annotated[int, Option()] = 8000
    speed: Annotated[float, Option(metavar="F")] = 1.0
    text: Annotated[str, Option(metavar="echo|story|FILE")] = ECHO
