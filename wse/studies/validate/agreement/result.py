"""Result of ``wse validate --against wavelet``: errors of the fabric model, with tables."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from wse.reports.number_text import count
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import INDENT, WIDEST
from wse.studies.validate.tables import signed_text

WORST: Final = 10
"""Number of configurations in the largest-errors table."""
WIDTHS: Final = {"machine": 13, "PEs": 7, "words": 5, "fast": 8, "wavelet": 8, "error": 8}
"""Column widths of the largest-errors table, in characters."""
PADDING: Final = 2


class AgreementRow(Result):
    """Cycle counts of one configuration by both timing models, with the relative error.

    One model is the fast timing model, the other the cycle-by-cycle simulation.
    """

    pattern: Annotated[str, Doc("The communication pattern, or whole layers.")]
    wafer: Annotated[str, Doc("The wafer.")]
    software: Annotated[str, Doc("The software profile.")]
    rows: Annotated[int, Doc("Rows of PEs.")]
    cols: Annotated[int, Doc("Columns of PEs.")]
    words: Annotated[int, Doc("Words of a message; 0 for whole layers.", "words")]
    detail: Annotated[str, Doc("Additional settings of the configuration, such as a group size or a root.")]
    fast_cycles: Annotated[float, Doc("Cycles that the fabric model gives.", "cycles")]
    wavelet_cycles: Annotated[int, Doc("Cycles that the reference gives.", "cycles")]
    contention_cycles: Annotated[
        float, Doc("Cycles by the fabric model in which words wait for other messages' on a link or ramp.", "cycles")
    ]
    streams: Annotated[int, Doc("Maximum number of messages on one link or ramp in one window.")]
    loads_equal: Annotated[bool, Doc("Whether both models count the same words on every link.")]
    error_pct: Annotated[float, Doc("100 (fast - wavelet) / wavelet cycles.", "%")] = field(init=False)

    def __post_init__(self) -> None:
        error_pct = 100 * (self.fast_cycles - self.wavelet_cycles) / max(1, self.wavelet_cycles)
        object.__setattr__(self, "error_pct", error_pct)


class AgreementErrors(Result):
    """Errors of the fast timing model over a group of configurations.

    The errors are relative to the cycle-by-cycle simulation. Configurations with very few cycles do
    not contribute to the median and the maximum; `judged` counts all others.
    """

    rows: Annotated[int, Doc("Configurations.")]
    judged: Annotated[int, Doc("Configurations with enough cycles for a meaningful relative error.")]
    loads_equal: Annotated[int, Doc("Configurations for which both models count the same words on every link.")]
    median_abs_error_pct: Annotated[float | None, Doc("Median of the absolute errors.", "%", or_null=True)]
    worst_abs_error_pct: Annotated[float | None, Doc("Largest absolute error.", "%", or_null=True)]


class ComparedPattern(Result):
    """Base class of records about one communication pattern, such as its timing errors.

    The field ``pattern`` is the name of the pattern. If whole layers were timed, it is their type.
    """

    pattern: Annotated[str, Doc("The pattern, or whole layers.")]


class PatternErrors(AgreementErrors, ComparedPattern):
    """Errors of the fast timing model over all configurations of one communication pattern.

    The errors are relative to the cycle-by-cycle simulation.
    """


class AgreementSummary(AgreementErrors):
    """Errors of the fast timing model: over all configurations, and separately for each pattern."""

    by_pattern: Annotated[tuple[PatternErrors, ...], Doc("Errors of each pattern.")]


class Agreement(Result):
    """Comparison of the fast timing model with the cycle-by-cycle simulation.

    Both models time the same random configurations.
    """

    each: Annotated[int, Doc("Number of configurations for each combination of pattern, wafer and software profile.")]
    seed: Annotated[int, Doc("Seed of the configurations.")]
    judged_above_cycles: Annotated[
        int, Doc("Errors are summarised for configurations with more cycles than this.", "cycles")
    ]
    rows: Annotated[tuple[AgreementRow, ...], Doc("Every configuration.")]
    summary: Annotated[AgreementSummary, Doc("Summary of the errors.")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build a table of errors by pattern, and a table of the largest errors."""
        judged_rows = [row for row in self.rows if row.wavelet_cycles > self.judged_above_cycles]
        judged_rows.sort(key=lambda row: -abs(row.error_pct))
        min_cycles = count(self.judged_above_cycles)
        notes = [
            ("", ""),
            ("errors", f"of the fabric model, where the reference takes more than {min_cycles} cycles"),
            ("more", "--json: every configuration, with what else it has"),
        ]
        return (_summary_table(self.summary, self.seed), _worst_table(judged_rows[:WORST], width), pair_table(notes))


def _summary_table(summary: AgreementSummary, seed: int) -> Table:
    """Build the error table, with one row per pattern and a last row for all patterns."""
    columns = (
        Column(key="pattern", title="pattern"),
        number("rows", "runs"),
        number("loads_equal", "links equal"),
        number("median_abs_error_pct", "median", lambda error: f"{error:.1f} %"),
        number("worst_abs_error_pct", "worst", lambda error: f"{error:.1f} %"),
    )
    return Table(
        columns=columns,
        rows=[*(errors.to_dict() for errors in summary.by_pattern), summary.to_dict() | {"pattern": "all"}],
        title="The fabric model against the wavelet reference",
        note=f"seed {seed}",
        style=lambda row: "bold" if row["pattern"] == "all" else "",
    )


def _worst_table(rows: list[AgreementRow], width: int) -> Table:
    """Build a table of configurations with their cycles according to both timing models.

    Args:
        rows: Configurations, sorted by error, largest first.
        width: Width of the terminal in characters.
    """
    room = width - INDENT - sum(WIDTHS.values()) - PADDING * len(WIDTHS)
    columns = (
        Column(key="pattern", title="pattern", width=room),
        Column(
            key="machine",
            title="machine",
            cell=lambda row: f"{row.wafer} {row.software}",
            width=WIDTHS["machine"],
        ),
        Column(key="pes", title="PEs", cell=lambda row: f"{row.rows}x{row.cols}", width=WIDTHS["PEs"]),
        number("words", "words", lambda words: count(words) if words else "", width=WIDTHS["words"]),
        number("fast_cycles", "fast", width=WIDTHS["fast"]),
        number("wavelet_cycles", "wavelet", width=WIDTHS["wavelet"]),
        number("error_pct", "error", signed_text, width=WIDTHS["error"]),
    )
    return Table(columns=columns, rows=rows, title=f"The {len(rows)} configurations that are farthest apart")
