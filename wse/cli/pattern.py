"""``wse pattern``: compares communication patterns on a line of PEs, bundled or user-defined."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.errors import BadInput
from wse.option import Option
from wse.studies.pattern.request import PatternRequest


def pattern(
    request: PatternRequest,
    html: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    png: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Compare reduces, broadcasts and gathers on a line of PEs.

    Show cycles with the lower bound and the closed form, words on links, and colours. Check whether
    every word arrives exactly once, and whether the messages can deadlock. Your own pattern is a
    function of (length, lines, arrival) in a file. The file is executed as a program, so use only
    files that you trust.

    Examples:

    \b
      wse pattern
      wse pattern chain,two_phase@8,k_tree --pes 64,750 --words 1,64,1024
      wse pattern chain_multicast,k_tree_all_reduce,ring_all_reduce --pes 32 --wavelet
      wse pattern k_tree,chain --pes 16 --words 8 --html patterns.html

    Args:
        html: Write one page with the tables, and an animation of the wavelets of small cases: up to
            128 PEs and 20,000 hops of words.
        png: Write a plot of cycles over words.
    """
    from wse.reports.progress import COMPARING, progress_on
    from wse.studies.pattern.page import compare_to_files

    with progress_on(sys.stderr, COMPARING) as on_progress:
        result = compare_to_files(request, on_progress, html=html, png=png)
    opt.print_result(result, json=json)
    if result.faults:
        further_faults = f" (and {len(result.faults) - 1} more cases with a fault)" if len(result.faults) > 1 else ""
        raise BadInput(f"{result.faults[0]}{further_faults}")
