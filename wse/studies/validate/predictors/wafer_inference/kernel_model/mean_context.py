"""Mean number of cached positions during a measurement, from its columns and texts."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import read_whole

UNFILLED_POSITIONS: Final = 524
"""Difference of maximum and mean context, in positions, for runs that state only the maximum.

Two runs of these series state both: a maximum of 2,048 with a mean of 1,524, and 8,192 with 7,668.
"""

_THOUSANDS: Final = re.compile(r"\b(?:at|context|ctx|,)\s*([0-9]+)\s*K\b", re.IGNORECASE)


def mean_context(m: Measurement) -> float | None:
    """Return a run's mean number of cached positions, or None if no context is stated.

    A measurement may state the mean, the first and last position, the numbers of prompt and
    generated tokens, or only the maximum.
    """
    sizes = m.sizes
    if "context_mean" in sizes:
        return float(sizes["context_mean"])
    if "context_min" in sizes and "context_max" in sizes:
        return (sizes["context_min"] + sizes["context_max"]) / 2
    prompt, generated_tokens = sizes.get("prompt_len"), sizes.get("gen_tokens")
    if prompt is not None and generated_tokens is not None:
        return prompt + generated_tokens / 2
    maximum = sizes.get("context_max")
    if maximum is None:
        match = _THOUSANDS.search(m.text("metric")) or _THOUSANDS.search(m.text("settings"))
        if match is None:
            return None
        maximum = 1024 * (read_whole(match[1]) or 0)
    return float(max(maximum // 2, maximum - UNFILLED_POSITIONS))
