"""``search`` of a result: which layouts were tried in small, which were compiled whole, and how they compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from wse.compiler.search.search import Compilation
from wse.compiler.search.trials import Trial
from wse.report.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class LayoutResult(Result):
    """A layout that was tried."""

    mapping: Annotated[str, Doc("mapping")]
    bands: Annotated[int, Doc("bands of rows that each wafer is cut into")]
    regions_per_band: Annotated[int, Doc("regions of a band, at most")]
    turned: Annotated[bool, Doc("whether rows and columns change places")]
    prefill: Annotated[str, Doc("matrix product of prefill")]
    needed_bytes_per_pe: Annotated[int, Doc("SRAM of the fullest PE with the smallest chunks", "B")]
    fits: Annotated[bool, Doc("whether a PE has as much")]
    chosen: Annotated[bool, Doc("whether the Program is of this layout")]
    groups: Annotated[
        int | Literal["equal"] | None, Doc("groups of the all-reduces of decode; absent where those asked for")
    ] = None
    token_cycles: Annotated[float | None, Doc("a generated token, about, with the smallest chunks", "cycles")] = None
    request_cycles: Annotated[float | None, Doc("the request; of layouts compiled whole", "cycles")] = None


@dataclass(frozen=True, kw_only=True)
class SearchResult(Result):
    """What was tried before a layout was chosen."""

    tried: Annotated[int, Doc("layouts that were tried in small")]
    fitting: Annotated[int, Doc("those of them that fit")]
    compiled: Annotated[int, Doc("those that were compiled whole")]
    layouts: Annotated[tuple[LayoutResult, ...], Doc("all layouts that were tried, the fastest first")]


def search_result(choice: Compilation) -> SearchResult | None:
    """The trials of a search, the fastest first; None where there was one alone."""
    if len(choice.trials) < 2:
        return None
    costs = dict(choice.compiled)
    chosen = choice.compiled[0][0] if choice.compiled else next((t for t in choice.trials if t.fits), None)
    order = sorted(choice.trials, key=lambda t: (costs.get(t, float("inf")), t.token_cycles or float("inf")))
    return SearchResult(
        tried=len(choice.trials),
        fitting=sum(trial.fits for trial in choice.trials),
        compiled=max(1, len(choice.compiled)),
        layouts=tuple(_layout(trial, costs.get(trial), chosen=trial == chosen) for trial in order),
    )


def _layout(trial: Trial, cycles: float | None, *, chosen: bool) -> LayoutResult:
    layout = trial.layout
    return LayoutResult(
        mapping=layout.mapping,
        bands=layout.bands,
        regions_per_band=layout.per_band,
        turned=layout.turned,
        prefill=trial.prefill,
        needed_bytes_per_pe=trial.needed_bytes,
        fits=trial.fits,
        chosen=chosen,
        groups="equal" if layout.groups is not None and layout.groups < 0 else layout.groups,
        token_cycles=trial.token_cycles,
        request_cycles=cycles,
    )
