"""Requests for an export. Options are checked before the trace is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.tracing.export.maps import check_maps
from wse.tracing.export.tables import PLANES, check_tables
from wse.tracing.query.inspect_request import cycle_range, token_range

SUFFIXES: Final = {
    "perfetto": ".perfetto.json",
    "csv": "-csv",
    "parquet": "-parquet",
    "png": "-png",
    "simulator-log": ".simulator.log",
}
"""For each format, the suffix of the default output name. Suffixes without a dot are of folders."""
FOLDERS: Final = ("csv", "parquet", "png")
_TABLES: Final = ("csv", "parquet")
_LOG: Final = ("simulator-log",)
_TAKEN_BY: Final = {
    "tokens": ("perfetto",),
    "what": (*_TABLES, "png"),
    "planes": _TABLES,
    "wafer_index": _LOG,
    "cycles": _LOG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """Request to export a trace.

    Attributes:
        trace: Trace to export.
        to: Format, a key of ``SUFFIXES``.
        out: File or folder to write.
        tokens: Indices of the first and last token to show. None shows all tokens, or as many as a
            viewer can handle.
        what: Names of the maps or tables to export; empty for all.
        planes: True to also export the tables with a row for each PE, which are large.
        wafer_index: Wafer whose wavelet log is exported.
        cycles: First and last cycle of the wavelet log to export; None for all.
    """

    trace: Path
    to: str
    out: Path
    tokens: tuple[int, int] | None = None
    what: tuple[str, ...] = ()
    planes: bool = False
    wafer_index: int = 0
    cycles: tuple[int, int] | None = None


def export_request(
    trace: str,
    to: str,
    out: str | None,
    *,
    tokens: str | None = None,
    what: str | None = None,
    planes: bool = False,
    wafer_index: int | None = None,
    cycles: str | None = None,
) -> ExportRequest:
    """Check the options of ``wse export``, and return the resulting request.

    Args:
        trace: Path of the trace.
        to: Format, a key of ``SUFFIXES``.
        out: Output path. None derives the path from the trace name and the format.
        tokens: Token range as a string, such as "3-5"; only for timelines.
        what: Comma-separated names of tables or maps.
        planes: True to also export the tables with a row for each PE, which are large.
        wafer_index: Wafer whose wavelet log is exported. None means wafer 0.
        cycles: Cycle range of the wavelet log as a string, such as "0-999".

    Raises:
        BadInput: An option does not apply to the format, or has an invalid value.
        UnknownName: There is no format, map or table with this name.
    """
    if to not in SUFFIXES:
        raise UnknownName("format", to, SUFFIXES, place="--to")
    options = {"planes": planes} | {
        name: value is not None
        for name, value in {"tokens": tokens, "what": what, "wafer_index": wafer_index, "cycles": cycles}.items()
    }
    for option, formats in _TAKEN_BY.items():
        if options[option] and to not in formats:
            message = f"--{option.replace('_', '-')}: applies to --to {', '.join(formats)}, not to {to}; leave it out"
            raise BadInput(message)
    if planes and what is not None:
        raise BadInput(f"--planes: name the planes in --what instead: {', '.join(PLANES.values())}")
    names = () if what is None else tuple(name.strip() for name in what.split(","))
    if to == "png":
        check_maps(names)
    else:
        check_tables(names)
    path = Path(trace)
    stem = path.name.removesuffix(".partial").removesuffix(".h5") or "trace"
    return ExportRequest(
        trace=path,
        to=to,
        out=Path(f"{stem}{SUFFIXES[to]}") if out is None else _out(out, to),
        tokens=None if tokens is None else token_range(tokens),
        what=names,
        planes=planes,
        wafer_index=wafer_index or 0,
        cycles=None if cycles is None else cycle_range(cycles),
    )


def _out(text: str, to: str) -> Path:
    """Return the path of the output file or folder. Raise BadInput if the path is empty.

    Args:
        text: Value of the option ``-o``.
        to: Format of the export, for the error message.
    """
    if text == "":
        raise BadInput(f"-o '': the path is empty; give the name of a {'folder' if to in FOLDERS else 'file'}")
    return Path(text)
