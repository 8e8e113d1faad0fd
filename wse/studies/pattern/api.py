"""The function `wse.pattern`, with all options of the command ``wse pattern`` as arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.hardware.generations import DEFAULT_WAFER
from wse.reports.progress import OnProgress, ignore
from wse.studies.options.arguments import checks_arguments, read_request
from wse.studies.pattern.request import PatternRequest

if TYPE_CHECKING:
    from wse.studies.pattern.result import PatternResult


@checks_arguments(PatternRequest)
def pattern(
    patterns: Sequence[str | Callable[..., Any]] | str | None = None,
    *,
    pes: Sequence[int] | str | None = None,
    words: Sequence[int] | str | None = None,
    wafer: str | Path = DEFAULT_WAFER,
    software: str | Path = "production",
    set: Sequence[str] | str = (),
    wavelet: bool = False,
    html: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> PatternResult:
    """Compare communication patterns on lines of PEs, as the command ``wse pattern`` does.

    The result has cycles, lower bounds, words on links, colours and faults of each pattern.

    Example:
        result = wse.pattern(["chain", "mine.py:mine", my_function], pes=[64], words=[1, 1024])
        result.cases[0].cycles, result.faults

    All other arguments are the same as for `wse.estimate`.

    Args:
        patterns: Names such as chain, chain_multicast or two_phase@8, in groups of 8; and patterns
            of your own as FILE.py:NAME, a file that is executed as a program. Default: the reduces.
        pes (64,750): Numbers of PEs on the line. Default: 64.
        words (1,1024): Numbers of 32-bit words per PE. Default: 1, 64, 1024.
        wavelet: Also simulate every case cycle by cycle, and check the words that arrive.
        html: File for a page with the tables and animations of small cases.
        on_progress: Called with (cases done, total, name of the next case).
    """
    from wse.studies.pattern.page import compare_to_files

    request = read_request(PatternRequest, locals())
    return compare_to_files(request, on_progress or ignore, html=html)
