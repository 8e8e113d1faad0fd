"""Terminal output: width, headings, tables, bars, and escaping of control characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO, cast

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wse.errors import WseError
from wse.reports import colours

WIDEST: Final = 100
NARROW: Final = 90
"""Width in characters below which bars are short and less important parts are omitted."""
INDENT: Final = 2
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

COLOURS: Final = {name: colour.light for name, colour in (colours.CAUSES | colours.USES).items()}
"""Style of each cause of cycles and use of SRAM."""


def console_on(stream: TextIO) -> Console:
    """Return a rich console for printing to a stream.

    Text is at most 100 characters wide. Only tables may be wider (`table_width`). Strings are
    printed without interpreting any markup.
    """
    console = _Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.file = cast(TextIO, _TrimmedFile(stream))
    console.terminal_width = console.width
    console.width = min(console.width, WIDEST)
    return console


def table_width(console: Console) -> int:
    """Return the maximum width of a table on a console, in characters.

    It is the width of the terminal, even if text is narrower.
    """
    return console.terminal_width if isinstance(console, _Console) else console.width


class _Console(Console):
    """Console on which text is narrower than the terminal if the terminal is wide."""

    terminal_width: int

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, which the command line handles.

        Without this method, rich would exit the process.
        """
        raise BrokenPipeError


class _TrimmedFile:
    """A file that strips trailing spaces from each line, for output that is not a terminal.

    Rich writes whole lines, so each call can be handled separately.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", "utf-8")

    def write(self, text: str) -> int:
        """Write text, stripping trailing spaces from each line."""
        self._stream.write("\n".join(line.rstrip(" ") for line in text.split("\n")))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return False, because this file is only used for streams that are not terminals."""
        return False


def printable(text: object) -> str:
    """Format an object on one line, with control characters as visible escape sequences."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def printable_text(text: str) -> str:
    """Return a string with control characters other than tabs and line breaks made visible."""
    return "".join(c if c in "\n\t" else printable(c) for c in text)


@contextmanager
def stream_text(stream: TextIO) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes text to a stream and flushes it immediately.

    On a terminal, control characters other than tabs and line breaks are made visible. If an error
    or Ctrl-C ends the context in the middle of a line, a line break is added, so that the error
    message starts on a new line.
    """
    is_terminal, last = stream.isatty(), "\n"

    def write(text: str) -> None:
        """Write text and flush the stream."""
        nonlocal last
        if is_terminal:
            text = printable_text(text)
        stream.write(text)
        stream.flush()
        last = text[-1:] or last

    try:
        yield write
    except (WseError, KeyboardInterrupt):
        if last != "\n":
            stream.write("\n")
            stream.flush()
        raise


def heading(console: Console, text: str, note: str = "") -> None:
    """Print the heading of a section, in bold, after an empty line.

    Args:
        console: Console to print on.
        text: Text of the heading.
        note: Remark after the heading.
    """
    line = Text(text, style="bold")
    if note:
        line.append(f"  {note}", style="not bold bright_black")
    console.print()
    console.print(line)


def lines(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Print name-text pairs in two indented columns.

    Long values are wrapped and never truncated. Names use at most half of the width.

    Args:
        console: Console to print on.
        rows: Names and values.
    """
    table = plain_table()
    name_width = max((cell_len(name) for name, _ in rows), default=0)
    half = (console.width - INDENT) // 2
    max_width = max(1, min(name_width, half))
    table.add_column(style="bright_black", no_wrap=name_width <= half, overflow="fold", max_width=max_width)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    show(console, table)


def plain_table(*, header: bool = False) -> Table:
    """Return an empty rich table without lines between cells."""
    return Table(box=None, show_header=header, header_style="bright_black", padding=(0, 2, 0, 0), pad_edge=False)


def show(console: Console, table: Table, width: int | None = None) -> None:
    """Print a rich table, indented.

    Args:
        console: Console to print on.
        table: Table to print.
        width: Width of the lines in characters; None for the width of text.
    """
    text_width = console.width
    console.width = width or text_width
    console.print(Padding(table, (0, 0, 0, INDENT), expand=False))
    console.width = text_width


def bar(fraction: float, width: int, colour: str = "") -> Text:
    """Return a horizontal bar made of characters, with a resolution of an eighth of a character.

    Args:
        fraction: Length as a fraction of the full width, limited to 0 to 1. A positive fraction
            always draws at least one eighth.
        width: Full width in characters.
        colour: Name of a cause of cycles or of a use of SRAM, which has a colour of its own, or a
            style in rich's notation.
    """
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    if fraction > 0 and eighths == 0:
        eighths = 1
    full, remainder = divmod(eighths, 8)
    text = "█" * full + (EIGHTHS[remainder] if remainder else "")
    return Text(text.ljust(width), style=COLOURS.get(colour, colour), no_wrap=True)
