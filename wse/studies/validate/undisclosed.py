"""Settings that services on wafers do not publish, as alternatives with weights.

A measurement that does not state the number of wafers, the precision or the drafts is predicted
with the first alternative of each setting in ``wse/data/undisclosed_settings.toml``. The interval
of the prediction also covers the other alternatives: it belongs to a mixture of distributions, one
for each combination of alternatives.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.terms import SILENT, drafts
from wse.studies.validate.predictors.prediction import Prediction
from wse.studies.validate.predictors.services import METHODS, RATES

FILE: Final = Path(__file__).parents[2] / "data" / "undisclosed_settings.toml"
_COLUMNS: Final = {"wafers": "chips", "precision": "precision"}
"""Column of a measurement that states a setting."""


class Alternative(NamedTuple):
    """One possible combination of the settings that a service does not publish.

    Such settings are the number of wafers, the precision, and the use of speculative decoding.

    Attributes:
        weight: Assumed probability of the combination.
        rate_ratio: Speed with these settings, divided by the predicted speed.
    """

    weight: float
    rate_ratio: float


AS_PREDICTED: Final = (Alternative(weight=1.0, rate_ratio=1.0),)
"""Alternatives of a measurement that states all settings."""


def alternatives_of(m: Measurement, prediction: Prediction) -> tuple[Alternative, ...]:
    """Return all combinations of the settings that a measurement does not state.

    Only measured speeds of services can leave settings open. For other measurements, and if all
    settings are stated, the result is only the predicted combination.

    Args:
        m: The measurement.
        prediction: Prediction of the measurement. If it assumes speculative decoding, it also
            contains the speed without speculative decoding.
    """
    if prediction.method not in METHODS.values() or m.text("metric").strip() not in RATES:
        return AS_PREDICTED
    settings = undisclosed_settings()
    drafting = [(Alternative(1.0, 1.0), prediction.plain is not None)]
    if drafts(m) == SILENT and prediction.plain and prediction.value:
        plain_ratio = prediction.plain / prediction.value
        with_drafts, without_drafts = (row["weight"] for row in settings["drafts"])
        drafting = [(Alternative(with_drafts, 1.0), True), (Alternative(without_drafts, plain_ratio), False)]
    open_settings = [name for name, column in _COLUMNS.items() if not m.text(column).strip()]
    combinations = []
    for drafts_alternative, is_drafted in drafting:
        groups = [_alternatives(settings[name], is_drafted=is_drafted) for name in open_settings]
        for alternatives in product([drafts_alternative], *groups):
            weights, rate_ratios = zip(*alternatives, strict=True)
            combinations.append(Alternative(weight=math.prod(weights), rate_ratio=math.prod(rate_ratios)))
    return tuple(combinations)


def _alternatives(rows: Sequence[Mapping[str, Any]], *, is_drafted: bool) -> list[Alternative]:
    """Return one alternative for each possible value of a setting, such as the precision.

    A value can have several speed ratios, for different models. It then becomes several
    alternatives of equal weight, one per ratio, whose weights add up to that of the value.

    Args:
        rows: Possible values of the setting, from `undisclosed_settings`.
        is_drafted: Whether the service uses speculative decoding, which determines the ratios.
    """
    alternatives = []
    for row in rows:
        rate_ratios = row["rate_ratios"]["drafts" if is_drafted else "no_drafts"] if "rate_ratios" in row else [1.0]
        alternatives += [Alternative(row["weight"] / len(rate_ratios), ratio) for ratio in rate_ratios]
    return alternatives


@cache
def undisclosed_settings() -> dict[str, list[dict[str, Any]]]:
    """Return the possible values of each setting that services do not publish, keyed by setting.

    Each value is a dict with ``choice``, ``weight`` (assumed probability), ``reason`` and, if known
    in advance, ``rate_ratios`` (speeds relative to the first value of the setting).
    """
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
