"""What limits a token: the estimate beside its bounds, for the whole and by kind of op, by kind of layer, by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from rich.console import Console
from rich.text import Text

from wse.report.table import Column, Table
from wse.report.terminal import COLOURS, bar, heading, lines, percent, short
from wse.report.terminal_table import print_table
from wse.studies.estimate.bounds import Bound, BoundRow, BoundsResult

LIMITS: Final[dict[Bound, str]] = {"sram": "SRAM", "arithmetic": "MACs", "hops": "hops", "crossing": "crossing"}
MOST_ROWS: Final = 16
TITLE: Final = "What limits a token"
NOTE: Final = "cycles, and bounds that no software beats on this placement"


def print_bounds(console: Console, bounds: BoundsResult) -> None:
    """Print the whole token and its ops."""
    heading(console, TITLE, NOTE)
    print_table(console, ops_table(bounds, wide=_wide(console)))
    lines(console, [("rests on", _rests_on(bounds.token))])


def print_levels(console: Console, bounds: BoundsResult) -> None:
    """Print the same token by kind of layer, and by stage."""
    heading(console, "By kind of layer")
    print_table(console, layers_table(bounds, wide=_wide(console)))
    heading(console, "By stage")
    print_table(console, stages_table(bounds, wide=_wide(console)))
    print_left(console, bounds.stages)


def print_left(console: Console, rows: Sequence[object]) -> None:
    """Print how many rows there are besides the first ``MOST_ROWS``."""
    if len(rows) > MOST_ROWS:
        lines(console, [("...", f"and {len(rows) - MOST_ROWS} more; --json has them all")])


def ops_table(bounds: BoundsResult, *, wide: bool = True) -> Table:
    """A row for each kind of op, and the whole token; bars and what is measured where there is room."""
    rows = (*bounds.ops, bounds.token)
    return Table(columns=_columns("op", _op, bounds.token.cycles, wide=wide), rows=rows)


def layers_table(bounds: BoundsResult, *, wide: bool = True) -> Table:
    """A row for each kind of layer."""
    name = Column(key="layers", title="layers", cell=lambda row: f"{row.layers}{_times(row.count)}", folds=True)
    return Table(columns=(name, *_numbers(bounds.token.cycles, wide=wide)), rows=bounds.layers)


def stages_table(bounds: BoundsResult, *, wide: bool = True) -> Table:
    """A row for each of the first ``MOST_ROWS`` stages."""
    columns = _columns("stage", lambda row: f"{row.stage} on wafer {row.wafer}", bounds.token.cycles, wide=wide)
    return Table(columns=columns, rows=bounds.stages[:MOST_ROWS])


def _columns(key: str, name: Callable[[BoundRow], str], whole: float, *, wide: bool) -> tuple[Column, ...]:
    return (Column(key=key, title=key, cell=name), *_numbers(whole, wide=wide))


def _numbers(whole: float, *, wide: bool) -> list[Column]:
    """The columns behind a row's name, where a token takes ``whole`` cycles."""
    share = Column(key="share", cell=lambda row: bar(row.cycles / whole, 8, "hops"))
    measured = Column(key="measured", title="measured", cell=_measured, numeric=True)
    return [
        *([share] if wide else []),
        Column(key="cycles", title="cycles", cell=lambda row: short(row.cycles), numeric=True),
        *(Column(key=key, title=title, cell=partial(_bound, key), numeric=True) for key, title in LIMITS.items()),
        Column(key="ratio", title="ratio", cell=_ratio, numeric=True),
        Column(key="limit", title="limit", cell=_limit),
        *([measured] if wide else []),
    ]


def _wide(console: Console) -> bool:
    return console.width >= 90


def _times(number: int | None) -> str:
    return f" ×{number}" if number is not None and number > 1 else ""


def _op(row: BoundRow) -> str:
    return "whole token" if row.op is None else f"{row.op.replace('_', ' ')}{_times(row.count)}"


def _bound(bound: Bound, row: BoundRow) -> Text:
    return Text(short(row.bounds[bound]), style=COLOURS["hops"] if bound == row.limit else "bright_black")


def _ratio(row: BoundRow) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"


def _limit(row: BoundRow) -> str:
    return "none" if row.limit is None else f"{LIMITS[row.limit]} ({row.bound_grade})"


def _measured(row: BoundRow) -> str:
    return percent(row.sources.get("measured", 0.0))


def _rests_on(row: BoundRow) -> str:
    """Shares of the cycles by what is known of their constants."""
    return ", ".join(f"{percent(share)} {source}" for source, share in row.sources.items()) + " constants"
