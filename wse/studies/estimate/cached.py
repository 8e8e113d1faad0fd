"""Estimates with the cache on disk: an estimate that was made before is read instead of computed.

This module imports the study only if the cache has no answer, because loading the compiler takes
longer than reading the answer.
"""

from __future__ import annotations

from wse.cache.records import cached
from wse.reports.progress import OnProgress, ignore
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.options.request_key import request_key


def cached_estimate(request: EstimateRequest, *, on_progress: OnProgress = ignore) -> EstimateResult:
    """Return an estimate on wafers from the cache, or compute it and store it there.

    An estimate that writes a trace is always computed.

    Args:
        request: The request. Errors are those of `wse.studies.estimate.study.estimate`.
        on_progress: Called with (number of parts done, number of parts, name of the next part) if
            the estimate is not in the cache.
    """

    def compute() -> EstimateResult:
        """Make the estimate."""
        from wse.studies.estimate.study import estimate

        return estimate(request, on_progress=on_progress)

    key = request_key("estimate", request) if request.trace is None else None
    return cached(key, EstimateResult, compute)
