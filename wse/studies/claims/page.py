"""docs/claims.md: what was found of each claim as a page, and the plots beside it."""

from __future__ import annotations

from pathlib import Path

from wse.reports.markdown import markdown_table
from wse.reports.output_file import write_output
from wse.reports.terminal import count
from wse.studies.claims.claim import CONFIDENCE
from wse.studies.claims.plot import image_of
from wse.studies.claims.result import ClaimResult, Decided


def write_page(decided: Decided, path: Path) -> None:
    """Write the page to ``path``, and the plot of claim N to the same name with ``-N.png``.

    Raises:
        BadInput: one of them cannot be written.
    """
    plots = {n: path.with_name(f"{path.stem}-{n}.png") for n in decided.curves}
    write_output("--page", path, _page(decided, plots).encode())
    for n, plot in plots.items():
        write_output("--page", plot, image_of(decided.curves[n], f"Claim {n}"))


def _page(decided: Decided, plots: dict[int, Path]) -> str:
    claims = decided.result.claims
    lines = [
        "# Claims about fast inference",
        "",
        "What people say of wafers and GPUs, each decided by a computation of this program: made by `wse claims --page "
        "docs/claims.md`; `wse claims N` explains one. Sources of constants are those of the estimates that decide.",
        "",
        *markdown_table(
            ("", "claim", "verdict", "because", "sure"),
            ((f"[{c.n}](#claim-{c.n})", c.claim, f"**{c.verdict}**", c.answer, c.confidence) for c in claims),
        ),
        "",
        *(f"- *{name}*: {text}." for name, text in CONFIDENCE.items()),
    ]
    for claim in claims:
        lines += ["", *_section(claim, plots.get(claim.n))]
    return "\n".join(lines) + "\n"


def _section(claim: ClaimResult, plot: Path | None) -> list[str]:
    picture = [] if plot is None else ["", f"![{claim.claim}]({plot.name})"]
    return [
        f"## Claim {claim.n}",
        "",
        f"> {claim.claim}",
        "",
        f"**{claim.verdict}**: {claim.answer} Confidence {claim.confidence}: {claim.reason}. Made by: {claim.source}. "
        f"Figures: `{claim.command}`.",
        "",
        *markdown_table(
            ("number", "", "what it is"),
            ((count(number.value), number.unit, number.meaning) for number in claim.numbers.values()),
        ),
        *picture,
    ]
