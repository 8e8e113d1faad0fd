"""InspectRequest: the options of ``wse inspect``, which select a view of a trace."""

from __future__ import annotations

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
            message = f"{' and '.join(f'--{view}' for view in views)}: are different views; give only one of them"
            raise BadInput(message)
        return views[0] if views else "summary"

    @property
    def rows(self) -> int | None:
        """Maximum number of rows in the view, or None for all rows."""
        return DEFAULT_TOP.get(self.view) if self.top is None else self.top
