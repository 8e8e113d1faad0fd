"""The function `wse.what_if`, the Python form of the option ``--what-if`` of ``wse estimate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.hardware.generations import DEFAULT_WAFER
from wse.reports.progress import OnProgress, ignore
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.arguments import checks_arguments, read_request

if TYPE_CHECKING:
    from wse.studies.what_if.result import WhatIfResult


@checks_arguments(EstimateRequest)
def what_if(
    model: str | Path,
    *,
    wafer: str | Path = DEFAULT_WAFER,
    mesh: str | None = None,
    wafers: int | str | None = None,
    mapping: str | Path = "auto",
    region: str | None = None,
    experts: str = "auto",
    place_experts: str | Path | None = None,
    schedule: str = "optimized",
    all_reduce: str | None = None,
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | str | None = None,
    link: str | Path = "vendor",
    set: Sequence[str] | str = (),
    defects: str | Path | None = None,
    defects_seed: int | str = 0,
    workload: str | None = None,
    prompt_len: int | str | None = None,
    new_tokens: int | str | None = None,
    prefix_tokens: int | str | None = None,
    think_time: float | str | None = None,
    batch: int | str | None = None,
    users: int | str | None = None,
    replicas: int | str | None = 1,
    objective: str | None = None,
    routing: str = "even",
    verify_tokens: int | str | None = None,
    draft: str | None = None,
    draft_model: str | Path | None = None,
    draft_place: str | None = None,
    gpu: str | Path | None = None,
    gpus: int | str | None = None,
    stack: str | Path | None = None,
    parallelism: str | None = None,
    capacity: str = "refuse",
    economics: str | Path | Mapping[str, Any] | None = None,
    price: str | Mapping[str, float] | None = None,
    network: str | Path | None = None,
    sensitivity: bool = False,
    uncertainty: bool = False,
    most_users: bool = False,
    trace: str | Path | None = None,
    changes: str | Sequence[str] = "default",
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> WhatIfResult:
    """Estimate a model on a machine and on variants of it, as ``wse estimate --what-if`` does.

    Example:
        result = wse.what_if("llama-3-8b", changes=["clock=x2", "sram=x2"])
        [(row.change, row.factors["tokens_per_s_per_user"]) for row in result.changes]

    Arguments that are not listed here have the same meaning as in `wse.estimate`.

    Args:
        changes: Strings such as ``clock=x2`` or ``wafer.hop_cycles=1``, or one comma-separated
            string. ``default`` denotes a set of eight changes.
        jobs: Number of processes. None uses all cores.
        on_progress: Called with (estimates done, total, name of the finished change).
    """
    from wse.studies.what_if.changes import read_changes
    from wse.studies.what_if.study import check
    from wse.studies.what_if.study import what_if as study

    request = read_request(EstimateRequest, locals())
    check(request)
    text = changes if isinstance(changes, str) else ",".join(changes)
    return study(request, read_changes(text), on_progress or ignore, jobs=jobs)
