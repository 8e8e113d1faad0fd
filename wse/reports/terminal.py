"""Terminal output: width, numbers, bars, and text from files that must not steer the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
"""Characters of a terminal below which bars are short and what is less important is left out."""
INDENT: Final = 2
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

COLOURS: Final = {name: colour.light for name, colour in (colours.CAUSES | colours.USES).items()}
"""The style of each cause and use."""


def console_on(stream: TextIO) -> Console:
    """Return a console at most 100 columns wide, that takes every text as it is."""
    console = _Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.file = cast(TextIO, _TrimmedFile(stream))
    console.width = min(console.width, WIDEST)
    return console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line that nobody reads any more; rich would exit on its own."""
        raise BrokenPipeError


class _TrimmedFile:
    """A file that gets each line without the spaces at its end. Rich writes whole lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", "utf-8")

    def write(self, text: str) -> int:
        self._stream.write("\n".join(line.rstrip(" ") for line in text.split("\n")))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False


def printable(text: object) -> str:
    """``text`` on one line, with control characters made visible."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def printable_text(text: str) -> str:
    """``text`` with control characters other than line ends made visible."""
    return "".join(c if c in "\n\t" else printable(c) for c in text)


@contextmanager
def stream_text(stream: TextIO) -> Iterator[Callable[[str], None]]:
    """A function that writes text at once; on a terminal, with control characters other than line ends visible.

    Where an error or Ctrl-C ends the text, what is said of it begins on a line of its own.
    """
    visible, last = stream.isatty(), "\n"

    def write(text: str) -> None:
        nonlocal last
        if visible:
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
    """A line that begins a section."""
    line = Text(text, style="bold")
    if note:
        line.append(f"  {note}", style="not bold bright_black")
    console.print()
    console.print(line)


def lines(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Names and texts below each other, indented. Nothing is cut off: names have half of the width at most."""
    table = plain_table()
    widest = max((cell_len(name) for name, _ in rows), default=0)
    half = (console.width - INDENT) // 2
    table.add_column(style="bright_black", no_wrap=widest <= half, overflow="fold", max_width=max(1, min(widest, half)))
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    show(console, table)


def plain_table(*, header: bool = False) -> Table:
    """Return a table without lines."""
    return Table(box=None, show_header=header, header_style="bright_black", padding=(0, 2, 0, 0), pad_edge=False)


def show(console: Console, table: Table) -> None:
    """Print a table, indented."""
    console.print(Padding(table, (0, 0, 0, INDENT), expand=False))


def bar(fraction: float, width: int, colour: str = "") -> Text:
    """Return a horizontal bar of ``width`` characters at 1, in eighths of a character; something is never nothing."""
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    if fraction > 0 and eighths == 0:
        eighths = 1
    full, remainder = divmod(eighths, 8)
    text = "█" * full + (EIGHTHS[remainder] if remainder else "")
    return Text(text.ljust(width), style=COLOURS.get(colour, colour), no_wrap=True)


def count(number: float) -> str:
    """Whole numbers with thousands apart, small ones with what matters of their fraction."""
    if number == int(number) or abs(number) >= 100:
        return f"{round(number):,}"
    return f"{number:,.1f}" if abs(number) >= 1 else f"{number:.2g}"


def short_number(number: float) -> str:
    """Three figures that count, with k, M, G or T for thousands, millions and more.

    >>> short_number(0), short_number(12.34), short_number(1508), short_number(2282548)
    ('0', '12', '1.51k', '2.28M')
    """
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale * 0.9995:
            value = number / scale
            return f"{value:.{max(0, 3 - len(str(int(value))))}f}{unit}"
    return f"{number:.0f}"


def three_figures(number: float) -> str:
    """Three figures that count, or all of those before the point; never in powers of ten.

    >>> three_figures(1.2345), three_figures(96.84), three_figures(999.6), three_figures(1938.2)
    ('1.23', '96.8', '1,000', '1,938')
    """
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def ranged(value: float, low: float, high: float, text: Callable[[float], str] = count, unit: str = "") -> str:
    """Return the text of a value with its range, or without where both ends of the range equal the value.

    >>> ranged(64.45, 41.96, 99, "{:g}".format, " USD"), ranged(60, 60, 60)
    ('64.45 USD (41.96 to 99)', '60')
    """
    ends = "" if low == value == high else f" ({text(low)} to {text(high)})"
    return f"{text(value)}{unit}{ends}"


def number_ranges(numbers: Iterable[int]) -> str:
    """Ascending whole numbers, three and more that follow each other as a range.

    >>> number_ranges([0, 1, 2, 3, 5, 6, 9])
    '0–3, 5, 6, 9'
    """
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][-1] + 1:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    return ", ".join(f"{s[0]}–{s[-1]}" if len(s) > 2 else ", ".join(map(str, s)) for s in stretches)


def percent(fraction: float) -> str:
    """Return a share; what is not nothing never reads as zero."""
    if 0 < fraction < 0.001:
        return "<0.1 %"
    return f"{fraction:.1%}".replace("%", " %")


def in_bytes(number: float) -> str:
    """Return the bytes with a decimal unit of fitting size."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(number) >= scale:
            value = number / scale
            return f"{value:,.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"
    return f"{count(number)} B"


def seconds(number: float) -> str:
    """Return a time with a unit of fitting size."""
    if not number:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if number * scale >= 1:
            return f"{three_figures(number * scale)} {unit}"
    return f"{number * 1e9:.3g} ns"


def rate_and_latency(bytes_per_s: float, latency_s: float | None = None, *, joint: str = " ") -> str:
    """Return the speed of a link: its rate and, where that is known, its latency.

    >>> rate_and_latency(8e9), rate_and_latency(150e9, 5e-7, joint=" and ")
    ('8 GB/s', '150 GB/s and 500 ns')
    """
    rate = f"{bytes_per_s / 1e9:g} GB/s"
    return rate if latency_s is None else f"{rate}{joint}{seconds(latency_s)}"


def hertz(number: float) -> str:
    """Return a clock."""
    return f"{number / 1e9:g} GHz" if number >= 1e9 else f"{number / 1e6:g} MHz"


def users_text(users: int) -> str:
    """``one user``, ``8 users``."""
    return "one user" if users == 1 else plural(users, "user")


def plural(number: int, thing: str) -> str:
    """``1 wafer``, ``2 wafers``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
