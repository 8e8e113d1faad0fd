"""``wse claims``: common claims about fast inference, each decided by a computation."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.hardware.quantity import whole_number
from wse.option import Option


def claims(
    number: Annotated[list[str] | None, Option(positional=True, repeats=True, metavar="N")] = None,
    page: Annotated[str | None, Option(panel="Output", metavar="FILE.md")] = None,
    png: Annotated[str | None, Option(panel="Output", metavar="FILE.png")] = None,
    price: opt.Price = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Check claims about fast inference, on wafers and on GPUs.

    For each claim, show the numbers that decide it, a verdict, and how often samples of the
    uncertain constants have the same verdict. All claims together take minutes.

    Examples:

    \b
      wse claims
      wse claims 7
      wse claims 2 --png chain.png

    Args:
        number: Claims to explain, by their numbers. Default: all.
        page: Also write a page of the claims, with their plots in the same folder.
        png: Also draw the plot of one claim.
        price: USD per hour of one wafer (`wafer`, or a name of `wse wafers`) or one GPU (a name of
            `wse gpus`). The price is exact: it has no range.
    """
    from wse.reports.progress import CLAIMING, progress_on
    from wse.studies.claims.study import decide_to_files

    with progress_on(sys.stderr, CLAIMING) as on_progress:
        result = decide_to_files(tuple(map(_number, number or ())), on_progress, page=page, png=png, price=price)
    opt.print_result(result, json=json, detail=bool(number))


def _number(text: str) -> int:
    """Parse the number of a claim.

    Raises:
        BadInput: The string is not a whole number.
    """
    from wse.errors import BadInput

    number = whole_number(text)
    if number is None:
        raise BadInput(f"N {text!r}: give the number of a claim, such as 2")
    return number
