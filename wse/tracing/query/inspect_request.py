"""InspectRequest: the options of ``wse inspect``, which select a view of a trace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadInput

VIEWS: Final = ("steps", "by", "links", "pe", "tokens", "tree", "cycles", "tensors", "diff", "check")
"""Views other than the summary, named after the options that request them."""

DEFAULT_TOP: Final = {"summary": 10, "steps": 20, "links": 20}


@dataclass(frozen=True, kw_only=True)
class InspectRequest:
    """Options of ``wse inspect`` as specified by the user. At most one view may be requested.

    Combinations of options are checked by ``request.inspect_trace``, before the trace is opened.
    """

    trace: Path
    tree: bool = False
    steps: bool = False
    sort: str | None = None
    by: str | None = None
    each_layer: bool = False
    links: bool = False
    pe: str | None = None
    dump: str | None = None
    pass_index: int | None = None
    as_hex: bool = False
    dump_file: str | None = None
    sram_png: str | None = None
    wafer_index: int | None = None
    tokens: bool = False
    tensors: bool = False
    cycles: str | None = None
    diff: Path | None = None
    check: bool = False
    top: int | None = None

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


_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def cycle_range(text: str) -> tuple[int, int]:
    """Return the first and last cycle specified by ``--cycles FROM-TO``.

    Raises:
        BadInput: The range is invalid.
    """
    return number_range("--cycles", text, noun="cycle", example="100-120")


def token_range(text: str) -> tuple[int, int]:
    """Return the first and last token specified by ``--tokens FROM-TO``.

    Raises:
        BadInput: The range is invalid.
    """
    return number_range("--tokens", text, noun="token", example="0-15")


def number_range(option: str, text: str, *, noun: str, example: str) -> tuple[int, int]:
    """Parse a number range, and return its first and last number.

    Args:
        option: Name of the option, such as ``--cycles``, for error messages.
        text: Value of the option.
        noun: Singular noun for a number in the range, such as "cycle", for error messages.
        example: Example of a valid range, for error messages.

    Raises:
        BadInput: The string is not of the form FROM-TO, or FROM is larger than TO.

    >>> number_range("--cycles", "100-120", noun="cycle", example="0-9")
    (100, 120)
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadInput(f"{option} {text!r}: give the first and the last {noun} as FROM-TO, such as {example}")
    first, last = (int(number) for number in match.groups())
    if last < first:
        raise BadInput(f"{option} {text}: it ends before it begins; give the smaller {noun} first")
    return first, last
