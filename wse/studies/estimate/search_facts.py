"""``search`` of a report: which layouts were tried in small, which were compiled whole, and how they compare."""

from __future__ import annotations

from wse.compiler.search.search import Found
from wse.compiler.search.trials import Trial
from wse.report.as_json import Report


def search_facts(found: Found) -> Report:
    """``search``: the trials, the fastest first; nothing where there was one alone.

    ``token_cycles`` are those of a generated token with the smallest chunks; ``request_cycles``, of layouts that were
    compiled whole, those of prompts and generated tokens. ``chosen`` marks the layout of the Program.
    """
    if len(found.trials) < 2:
        return {}
    costs = dict(found.compiled)
    chosen = found.compiled[0][0] if found.compiled else next((t for t in found.trials if t.fits), None)
    order = sorted(found.trials, key=lambda t: (costs.get(t, float("inf")), t.token_cycles or float("inf")))
    return {
        "tried": len(found.trials),
        "fitting": sum(trial.fits for trial in found.trials),
        "compiled": max(1, len(found.compiled)),
        "layouts": [_row(trial, costs.get(trial), chosen=trial == chosen) for trial in order],
    }


def _row(trial: Trial, cycles: float | None, *, chosen: bool) -> Report:
    layout = trial.layout
    row: Report = {
        "mapping": layout.mapping,
        "bands": layout.bands,
        "regions_per_band": layout.per_band,
        "turned": layout.turned,
        "prefill": trial.prefill,
        "needed_bytes_per_pe": trial.needed_bytes,
        "fits": trial.fits,
        "chosen": chosen,
    }
    if layout.groups is not None:
        row["groups"] = "equal" if layout.groups < 0 else layout.groups
    if trial.token_cycles is not None:
        row["token_cycles"] = trial.token_cycles
    if cycles is not None:
        row["request_cycles"] = cycles
    return row
