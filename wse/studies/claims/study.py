"""The study of ``wse claims``: the list of claims, how they are decided, and the written files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from wse.errors import BadInput
from wse.reports.output_file import output_path, picture_path, write_output
from wse.reports.progress import OnProgress, ignore
from wse.serving.prices import Price, check_prices, prices_text, prices_under, unused_prices_note
from wse.studies.claims.page import image_of, write_page
from wse.studies.claims.result import Claim, ClaimsResult, Curves, Finding, claim_result, claim_tables
from wse.studies.claims.shared_computations import WAFER_NAMES, SharedComputations

TOPICS: Final = "wse.studies.claims.topics"
"""Package of the functions that decide claims."""


def _decider(name: str) -> Callable[[SharedComputations], Finding]:
    """Import and return the function that computes the verdict on a claim.

    Args:
        name: Name of the function with its module, such as ``chains.bubbles``.
    """
    module, _, function = name.partition(".")
    decide: Callable[[SharedComputations], Finding] = getattr(import_module(f"{TOPICS}.{module}"), function)
    return decide


CLAIMS: Final = tuple(
    Claim(
        number=number,
        text=table["text"],
        source=table["source"],
        command=table["command"],
        decide=_decider(table["decide"]),
        is_drawn="curves" in table,
    )
    for number, table in enumerate(claim_tables().values(), 1)
)


def decide(
    numbers: Sequence[int] = (), on_progress: OnProgress = ignore, *, price: Price | None = None
) -> tuple[ClaimsResult, dict[int, Curves]]:
    """Decide which of the collected claims about fast inference are true.

    Args:
        numbers: Numbers of the claims; all claims if empty.
        on_progress: Called with (number of finished claims, total number of claims, current work).
        price: Prices that replace the bundled ones. They have no range.

    Returns:
        The verdicts, and the content of the plots by claim number. Some claims have no plot.

    Raises:
        BadInput: One of the numbers does not belong to any claim, or a price is invalid.
        DoesNotFit: A model does not fit on the requested wafers. This does not happen with the
            bundled models.
    """
    check_numbers(numbers)
    check_prices(price, [WAFER_NAMES])
    claims = [claim for claim in CLAIMS if not numbers or claim.number in numbers]
    results, curves, used_names = [], {}, set[str]()
    shared_computations = SharedComputations(price=prices_text(price))
    for i, claim in enumerate(claims):
        shared_computations.on_work = partial(on_progress, i, len(claims))
        shared_computations.uncertain_names.clear()
        shared_computations.priced_names.clear()
        finding = claim.decide(shared_computations)
        wafer_prices = prices_under(price, shared_computations.priced_names & WAFER_NAMES)
        results.append(claim_result(claim, finding, shared_computations.uncertain_names, prices_text(wafer_prices)))
        used_names |= shared_computations.priced_names
        if finding.curves is not None:
            curves[claim.number] = finding.curves
    on_progress(len(claims), len(claims), "")
    return ClaimsResult(claims=tuple(results), note=unused_prices_note(price, used_names)), curves


def check_drawn(numbers: Sequence[int]) -> None:
    """Check that exactly one claim is requested and that it has a plot, so ``--png`` can draw it.

    Raises:
        BadInput: There is not exactly one number, the claim does not exist, or it has no plot.
    """
    check_numbers(numbers)
    if len(numbers) != 1:
        raise BadInput("--png draws the plot of one claim: give its number, or --page for the plots of all")
    if not CLAIMS[numbers[0] - 1].is_drawn:
        raise BadInput(
            f"--png: claim {numbers[0]} is decided by single numbers, there is nothing to draw; leave out --png"
        )


def check_numbers(numbers: Sequence[int]) -> None:
    """Check that every number refers to an existing claim.

    Raises:
        BadInput: A number is below 1 or above the number of claims.
    """
    for number in numbers:
        if not 1 <= number <= len(CLAIMS):
            raise BadInput(f"claim {number}: give the number of a claim, 1 to {len(CLAIMS)}")


def decide_to_files(
    numbers: Sequence[int],
    on_progress: OnProgress,
    *,
    page: str | Path | None,
    png: str | Path | None,
    price: Price | None = None,
) -> ClaimsResult:
    """Decide which claims about fast inference are true, and write the requested files.

    Args:
        numbers: Numbers of the claims; all claims if empty.
        on_progress: Called with (number of finished claims, total number of claims, current work).
        page: Where to write a Markdown page with all verdicts and plots; None for no page.
        png: Where to write the plot, if a single claim is requested; None for no plot.
        price: Prices that replace the bundled ones.

    Raises:
        BadInput: A claim does not exist, a price is invalid, a file cannot be written, or a plot is
            requested for several claims or for a claim without one.
    """
    page_path = None if page is None else output_path("--page", str(page), suffix=".md", kind="a Markdown file")
    png_path = None if png is None else picture_path("--png", str(png))
    if png_path is not None:
        check_drawn(numbers)
    result, curves = decide(numbers, on_progress, price=price)
    if page_path is not None:
        write_page(result, curves, page_path)
    if png_path is not None:
        write_output("--png", png_path, image_of(curves[numbers[0]], f"Claim {numbers[0]}"))
    return result
