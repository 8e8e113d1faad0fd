"""Servers of a compiled Program: PE regions, links and host connections."""

from __future__ import annotations

from dataclasses import dataclass

from wse.reports.number_text import number_ranges

REGION, LINK, WAFER_LINK, HOST_LINK = "region", "link", "wafer link", "host"


@dataclass(frozen=True, slots=True)
class Server:
    """A PE region, a link or a host connection, which handles one batch of tokens at a time.

    Attributes:
        kind: ``region``, ``link``, ``wafer link`` or ``host``.
        wafer: Index of the wafer that contains the region or link. For a link to another wafer or
            to the host, it is the wafer from which the data come.
        stages: Pipeline stages that run on a region, or the two stages that a link within a wafer
            connects. Empty for links to other wafers and to the host.
    """

    kind: str
    wafer: int
    stages: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the server in reports."""
        stages = number_ranges(self.stages)
        match self.kind:
            case "region":
                return f"stage {stages}" if len(self.stages) == 1 else f"stages {stages}"
            case "link":
                return f"link of stages {stages}"
            case "wafer link":
                return f"link out of wafer {self.wafer}"
            case _:
                return f"link of the host to wafer {self.wafer}"
