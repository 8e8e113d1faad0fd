"""``search`` of an estimate: the layouts that were tried on a reduced model or fully compiled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, Literal

from wse.reports.number_text import count, plural, short_number
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.serving.goal import PURPOSES

if TYPE_CHECKING:
    from wse.compiler.search.search import Compilation
    from wse.compiler.search.trials.trial import Trial

MOST_ROWS: Final = 8
"""Maximum number of layouts to show."""


class LayoutResult(Result):
    """A layout that a search tried: a division of wafers into PE rectangles that store layers."""

    mapping: Annotated[str, Doc("mapping")]
    bands: Annotated[int, Doc("bands of rows into which each wafer is divided")]
    regions_per_band: Annotated[int, Doc("maximum number of regions of a band")]
    transposed: Annotated[bool, Doc("whether rows and columns of the mesh are exchanged")]
    prefill: Annotated[str, Doc("matrix product of prefill")]
    needed_bytes_per_pe: Annotated[int, Doc("SRAM of the fullest PE with the smallest chunks", "B")]
    fits: Annotated[bool, Doc("whether the layout fits")]
    chosen: Annotated[bool, Doc("whether this layout was chosen")]
    groups: Annotated[
        int | Literal["equal"] | None,
        Doc("groups of the all-reduces of decode; absent if they are those of the request"),
    ] = None
    experts: Annotated[str | None, Doc("placement of experts; absent if it is that of the request")] = None
    mesh_rows: Annotated[int | None, Doc("rows of each wafer's mesh that are used; absent if all are")] = None
    mesh_cols: Annotated[int | None, Doc("columns of each wafer's mesh that are used; absent if all are")] = None
    token_cycles: Annotated[
        float | None, Doc("approximate cycles of a generated token, with the smallest chunks", "cycles")
    ] = None
    request_cycles: Annotated[
        float | None,
        Doc("cycles of the requests of one pass; absent if the layout was not fully compiled", "cycles"),
    ] = None


class SearchResult(Result):
    """The layouts that a search tried, with the cycle count of each.

    A layout is a division of the wafers into rectangles of PEs, each of which stores some layers.
    """

    objective: Annotated[str, Doc("what the layout was chosen for: `latency` of a request, `throughput` or `cost`")]
    tried: Annotated[
        int,
        Doc("layouts tried for the chosen users per pass, on a reduced model with one layer of each kind"),
    ]
    fitting: Annotated[int, Doc("layouts that fit")]
    compiled: Annotated[int, Doc("layouts that were fully compiled")]
    layouts: Annotated[
        tuple[LayoutResult, ...], Doc("all layouts that were tried: the chosen one, then the others, fastest first")
    ]


def search_result(choice: Compilation, objective: str) -> SearchResult | None:
    """Create the record of the layouts that a search tried.

    The chosen layout comes first, followed by the other layouts, fastest first.

    Args:
        choice: Result of the search.
        objective: Objective for which the layout was chosen, one of `OBJECTIVES`.

    Returns:
        The record, or None if only one layout was tried.
    """
    if len(choice.trials) < 2:
        return None
    costs, chosen_trial = dict(choice.compiled_trials), choice.compiled_trials[0][0]

    def rank(trial: Trial) -> tuple[bool, float, float]:
        """Return the sort key of a layout in the record: the chosen one first, then the fastest."""
        return trial != chosen_trial, costs.get(trial) or math.inf, trial.token_cycles or math.inf

    order = sorted(choice.trials, key=rank)
    return SearchResult(
        objective=objective,
        tried=len(choice.trials),
        fitting=sum(trial.fits for trial in choice.trials),
        compiled=len(choice.compiled_trials),
        layouts=tuple(layout_result(trial, costs.get(trial), is_chosen=trial == chosen_trial) for trial in order),
    )


def search_table(search: SearchResult, clock_hz: float) -> Table:
    """Return a table of the layouts that a search tried: the chosen one first, then by speed.

    Args:
        search: The layouts. At most `MOST_ROWS` are shown.
        clock_hz: Clock rate of the wafer.
    """
    columns = (
        Column(key="chosen", formatter=lambda is_chosen: "▸" if is_chosen else ""),
        Column(
            key="mapping", title="mapping", cell=lambda row: f"{row.mapping}{' transposed' if row.transposed else ''}"
        ),
        Column(key="bands", title="bands", formatter=count),
        Column(key="regions_per_band", title="regions", formatter=lambda regions: f"≤ {regions}", priority=4),
        Column(
            key="mesh",
            title="mesh",
            cell=lambda row: f"{row.mesh_rows}x{row.mesh_cols}" if row.mesh_rows else "",
            priority=5,
        ),
        Column(key="groups", title="groups", priority=6),
        Column(key="experts", title="experts", priority=6),
        Column(key="prefill", title="prefill", formatter=lambda product: product.replace("-gemm", ""), priority=7),
        number(
            "needed_bytes_per_pe",
            "bytes a PE",
            cell=lambda row: count(row.needed_bytes_per_pe) + ("" if row.fits else " ✗"),
            priority=2,
        ),
        number("token_cycles", "tokens/s", lambda cycles: count(round(clock_hz / cycles)), priority=1),
        number("request_cycles", "cycles", short_number, priority=3),
    )
    counts = (
        f"chosen for {PURPOSES[search.objective]}; {search.tried} tried on a reduced model, {search.fitting} fit, "
        f"{search.compiled} fully compiled"
    )
    legend = (
        ("✗", "does not fit"),
        ("tokens/s", "approximate, with the smallest chunks; cycles: of the whole request"),
    )
    return Table(columns=columns, rows=search.layouts[:MOST_ROWS], title="Layouts", note=counts, footer=legend)


def layout_text(layout: LayoutResult) -> str:
    """Describe a layout, such as "mapping bands, 5 bands of at most 7 regions, prefill thin-gemm"."""
    transposed = ", transposed" if layout.transposed else ""
    mesh = "" if layout.mesh_rows is None else f" on {layout.mesh_rows}x{layout.mesh_cols} PEs"
    experts = "" if layout.experts is None else f", experts {layout.experts}"
    bands = f"{plural(layout.bands, 'band')} of at most {plural(layout.regions_per_band, 'region')}"
    return f"mapping {layout.mapping}, {bands} per wafer{mesh}{transposed}, prefill {layout.prefill}{experts}"


def layout_result(trial: Trial, cycles: float | None, *, is_chosen: bool) -> LayoutResult:
    """Create the record of a layout that was tried.

    Args:
        trial: The layout and its results on a reduced model.
        cycles: Cycles for the request; None if the layout was not fully compiled.
        is_chosen: Whether this layout was chosen.
    """
    layout = trial.layout
    mesh_rows, mesh_cols = layout.mesh or (None, None)
    return LayoutResult(
        mapping=layout.mapping,
        bands=layout.bands,
        regions_per_band=layout.per_band,
        transposed=layout.is_transposed,
        prefill=trial.prefill,
        needed_bytes_per_pe=trial.needed_bytes,
        fits=trial.fits,
        chosen=is_chosen,
        groups="equal" if layout.groups is not None and layout.groups < 0 else layout.groups,
        experts=layout.experts,
        mesh_rows=mesh_rows,
        mesh_cols=mesh_cols,
        token_cycles=trial.token_cycles,
        request_cycles=cycles,
    )
