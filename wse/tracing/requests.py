"""The options of ``wse inspect``, which select a view of a trace, and of ``wse export``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.errors import BadInput
from wse.option import Option

VIEWS: Final = ("steps", "by", "links", "pe", "tokens", "tree", "cycles", "tensors", "diff", "check")
"""Views other than the summary, named after the options that request them."""

DEFAULT_TOP: Final = {"summary": 10, "steps": 20, "links": 20}

TracePath = Annotated[
    Path,
    Option(
        positional=True, required=True, read=Path, metavar="TRACE", doc="A file that wse run or wse estimate wrote."
    ),
]
"""Option for the trace that a command reads."""


@dataclass(frozen=True, kw_only=True)
class InspectRequest:
    """Options of ``wse inspect``. At most one view may be requested.

    Combinations of options are checked by ``request.inspect_trace``, before the trace is opened.

    Attributes:
        tree: Show the ops of each layer, with their cycles.
        steps: Show the steps with the most cycles, or in the order of --sort.
        sort: Sort --steps by cycles, words, hops, start, or the cycles of a cause: compute, launch,
            relays, hops-cycles, crossing, host. Default: cycles.
        by: Sum the cycles of each phase by op, kind, layer, cause, token or wafer.
        each_layer: Show equal layers in separate rows; with --links, show equal links in separate
            rows.
        links: Show the links with the most words, and the layers that send them.
        pe: Show one PE: SRAM map, routes, busy time, links. WAFER:ROW,COL with several wafers.
        dump: With --pe: show the contents of a buffer, if recorded by wse run --record-pe.
        pass_index: With --dump: index of the pass. Default: the last.
        as_hex: With --dump: show bytes as hexadecimal digits.
        dump_file: With --dump: also write the contents to a file: numbers as .npy, else raw bytes.
        sram_png: With --pe: also draw the PE's SRAM over the steps of a token, as PNG.
        wafer_index: With --pe: index of the wafer that the PE is on.
        tokens: Show every token with its cycles; with --top the slowest.
        tensors: Show the tensors that the run recorded.
        cycles: Show the moves in these cycles, if recorded by wse run --wavelets.
        diff: Show the differences to this trace; equal layers together.
        check: List all errors in the file; exit with 2 if there are any.
        top: Maximum number of steps, links, groups or tokens. Default: 20; for tokens, all.
    """

    trace: TracePath = Path()
    tree: Annotated[bool, Option()] = False
    steps: Annotated[bool, Option()] = False
    sort: Annotated[str | None, Option(metavar="COLUMN")] = None
    by: Annotated[str | None, Option(metavar="GROUP")] = None
    each_layer: Annotated[bool, Option()] = False
    links: Annotated[bool, Option()] = False
    pe: Annotated[str | None, Option(metavar="ROW,COL")] = None
    dump: Annotated[str | None, Option(metavar="BUFFER")] = None
    pass_index: Annotated[int | None, Option(flag="--pass")] = None
    as_hex: Annotated[bool, Option(flag="--hex")] = False
    dump_file: Annotated[str | None, Option(metavar="FILE")] = None
    sram_png: Annotated[str | None, Option(metavar="FILE")] = None
    wafer_index: Annotated[int | None, Option(metavar="N")] = None
    tokens: Annotated[bool, Option()] = False
    tensors: Annotated[bool, Option()] = False
    cycles: Annotated[str | None, Option(metavar="FROM-TO")] = None
    diff: Annotated[Path | None, Option(read=Path, metavar="TRACE")] = None
    check: Annotated[bool, Option()] = False
    top: Annotated[int | None, Option(metavar="N")] = None

    @property
    def view(self) -> str:
        """Name of the requested view, or "summary" if none is requested.

        Raises:
            BadInput: Several views are requested.
        """
        views = [view for view in VIEWS if getattr(self, view) not in (False, None)]
        if len(views) > 1:
            raise BadInput(f"{' and '.join(f'--{view}' for view in views)}: are different views; give only one of them")
        return views[0] if views else "summary"

    @property
    def rows(self) -> int | None:
        """Maximum number of rows in the view, or None for all rows."""
        return DEFAULT_TOP.get(self.view) if self.top is None else self.top


_PLACE: Final = re.compile(r"(?:([0-9]{1,9}):)?([0-9]{1,9}),([0-9]{1,9})")


def pe_place(text: str, option: str = "--pe", example: str = "0,3 or 1:0,3") -> tuple[int | None, int, int]:
    """Return wafer, row and column of a position such as ``ROW,COL`` or ``WAFER:ROW,COL``.

    The wafer is None if the text does not name one.

    Args:
        text: The position.
        option: Name of the option, for the error message.
        example: Example of a value, for the error message.

    Raises:
        BadInput: The string has neither of these forms.
    """
    match = _PLACE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{option} {text!r}: give row and column as ROW,COL, or WAFER:ROW,COL, such as {example}")
    wafer, row, col = match.groups()
    return None if wafer is None else int(wafer), int(row), int(col)


_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def cycle_range(text: str | None) -> tuple[int, int] | None:
    """Return the first and last cycle specified by ``--cycles FROM-TO``, or None without the option.

    Raises:
        BadInput: The range is invalid.
    """
    return number_range("--cycles", text, noun="cycle", example="100-120")


def token_range(text: str | None) -> tuple[int, int] | None:
    """Return the first and last token specified by ``--tokens FROM-TO``, or None without the option.

    Raises:
        BadInput: The range is invalid.
    """
    return number_range("--tokens", text, noun="token", example="0-15")


def number_range(option: str, text: str | None, *, noun: str, example: str) -> tuple[int, int] | None:
    """Parse a number range, and return its first and last number, or None if there is no text.

    Args:
        option: Name of the option, such as ``--cycles``, for error messages.
        text: Value of the option, or None if it is not given.
        noun: Singular noun for a number in the range, such as "cycle", for error messages.
        example: Example of a valid range, for error messages.

    Raises:
        BadInput: The string is not of the form FROM-TO, or FROM is larger than TO.

    >>> number_range("--cycles", "100-120", noun="cycle", example="0-9")
    (100, 120)
    """
    if text is None:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadInput(f"{option} {text!r}: give the first and the last {noun} as FROM-TO, such as {example}")
    first, last = (int(number) for number in match.groups())
    if last < first:
        raise BadInput(f"{option} {text}: it ends before it begins; give the smaller {noun} first")
    return first, last


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
