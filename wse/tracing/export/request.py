"""ExportRequest: the options of ``wse export``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.option import Option
from wse.tracing.query.inspect_request import TracePath

SUFFIXES: Final = {
    "perfetto": ".perfetto.json",
    "csv": "-csv",
    "parquet": "-parquet",
    "png": "-png",
    "simulator-log": ".simulator.log",
}
"""For each format, the suffix of the default output name. Suffixes without a dot are of folders."""
FOLDERS: Final = ("csv", "parquet", "png")


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """Options of ``wse export``.

    Their combinations are checked by ``files.write_export``, before the trace is opened.

    Attributes:
        to: perfetto, csv, parquet, png, simulator-log.
        output: File to write; a folder for csv, parquet, png. Default: named after the trace.
        tokens: perfetto: only the passes of these tokens.
        what: png: sram, busy, links, north, east, south, west; csv, parquet: tables.
        planes: csv, parquet: also tables with a row per PE.
        wafer_index: simulator-log: index of the wafer. Default: 0.
        cycles: simulator-log: only these cycles of the logged pass.
    """

    trace: TracePath = Path()
    to: Annotated[str, Option(required=True, metavar="FORMAT")] = ""
    output: Annotated[str | None, Option(short="-o", metavar="PATH")] = None
    tokens: Annotated[str | None, Option(metavar="FROM-TO")] = None
    what: Annotated[str | None, Option(metavar="A,B")] = None
    planes: Annotated[bool, Option()] = False
    wafer_index: Annotated[int | None, Option(metavar="N")] = None
    cycles: Annotated[str | None, Option(metavar="FROM-TO")] = None

    @property
    def out(self) -> Path:
        """File or folder to write. By default, the name of the trace with the suffix of the format."""
        stem = self.trace.name.removesuffix(".partial").removesuffix(".h5") or "trace"
        return Path(f"{stem}{SUFFIXES[self.to]}" if self.output is None else self.output)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the maps or tables to export; empty for all."""
        return () if self.what is None else tuple(name.strip() for name in self.what.split(","))
