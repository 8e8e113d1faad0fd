"""Writer for docs/claims.md, the page with the findings on all claims, and for its plots."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wse.reports.number_text import count
from wse.reports.output_file import png_of, write_output
from wse.reports.page.markdown_page import markdown_page
from wse.reports.table import markdown_table
from wse.studies.claims.result import ClaimResult, ClaimsResult, Curves


def image_of(curves: Curves, title: str) -> bytes:
    """Draw curves and return the plot as the content of a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    axes.set(xlabel=curves.x, ylabel=curves.y, title=title)
    if curves.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if curves.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return png_of(figure)


PAGE_WIDTH: Final = 100


def write_page(result: ClaimsResult, curves: Mapping[int, Curves], path: Path) -> None:
    """Write a Markdown page with the verdict on every claim, and the plots as separate PNG files.

    Args:
        result: The decided claims.
        curves: Content of the plots, keyed by claim number.
        path: Path of the page. The plot of claim N of ``claims.md`` is ``claims-N.png`` next to it.

    Raises:
        BadInput: A file cannot be written.
    """
    plots = {n: path.with_name(f"{path.stem}-{n}.png") for n in curves}
    write_output("--page", path, _page(result, plots).encode())
    for n, plot in plots.items():
        write_output("--page", plot, image_of(curves[n], f"Claim {n}"))


def _page(result: ClaimsResult, plots: dict[int, Path]) -> str:
    """Return the Markdown text of the page: a table of all claims, then one section per claim."""
    claims = result.claims
    overview = markdown_table(
        ("", "claim", "verdict"), ((f"[{c.n}](#claim-{c.n})", c.claim, f"**{c.verdict}**") for c in claims)
    )
    return markdown_page(
        "wse.studies.claims",
        claims=claims,
        plots=plots,
        overview="\n".join(overview),
        wrapped=_wrapped,
        numbers_table=_numbers_table,
    )


def _wrapped(text: str, indent: str = "", next_indent: str = "") -> str:
    """Wrap a paragraph into lines of at most `PAGE_WIDTH` characters.

    Args:
        text: Text of the paragraph.
        indent: Text that starts the first line.
        next_indent: Text that starts every following line.
    """
    return textwrap.fill(
        text,
        PAGE_WIDTH,
        initial_indent=indent,
        subsequent_indent=next_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _numbers_table(claim: ClaimResult) -> str:
    """Return the Markdown table of the numbers that support the verdict on a claim."""
    rows = ((count(number.value), number.unit, number.meaning) for number in claim.numbers.values())
    return "\n".join(markdown_table(("value", "unit", "meaning"), rows))
