"""PublicPoint: published speeds of services, and what they ask for a token where they say it.

The points come with wse (``wse/data/public_speeds.csv``), a row each with its source. Where a price is published the
point has it; a speed alone says nothing about what a token costs.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Final

from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count
from wse.report.result import Doc, Result

PUBLIC_FILE: Final = "public_speeds.csv"


@dataclass(frozen=True, kw_only=True)
class PublicPoint(Result):
    """A published speed of a service of the model, or of one with the same layers."""

    model: Annotated[str, Doc("the model as its source names it")]
    system: Annotated[str, Doc("the machine or service")]
    chips: Annotated[int | None, Doc("its chips, where they are known")] = None
    tokens_per_s_per_user: Annotated[float, Doc("generated tokens of a user", "1/s")]
    usd_per_million_tokens: Annotated[float | None, Doc("price or cost of a million generated tokens", "USD")] = None
    drafts: Annotated[str | None, Doc("whether tokens are drafted: yes, no or unknown")] = None
    by: Annotated[str, Doc("`vendor` or `independent`")]
    date: Annotated[str, Doc("date of the source")]
    source: Annotated[str, Doc("address of the speed")]
    price_source: Annotated[str | None, Doc("address of the price")] = None


def public_points(spec: ModelSpec) -> tuple[PublicPoint, ...]:
    """The published speeds of services of a model with these layers, the fastest first."""
    points = [_point(row) for row in _rows() if _shape_of(row["configuration"]) == _shape(spec)]
    return tuple(sorted(points, key=lambda point: -point.tokens_per_s_per_user))


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = (files("wse") / "data" / PUBLIC_FILE).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def _shape_of(configuration: str) -> tuple[int, int, int]:
    return _shape(load_model(configuration, with_weights=False).spec)


def _shape(spec: ModelSpec) -> tuple[int, int, int]:
    """Layers, hidden size and parameters: what models of the same layers have in common."""
    return spec.layer_count, spec.hidden_size, parameter_count(spec)


def _point(row: dict[str, str]) -> PublicPoint:
    price = row["usd_per_million_tokens"]
    return PublicPoint(
        model=row["model"],
        system=row["system"],
        chips=int(row["chips"]) if row["chips"] else None,
        tokens_per_s_per_user=float(row["tokens_per_s_per_user"]),
        usd_per_million_tokens=float(price) if price else None,
        drafts=row["drafts"] or None,
        by=row["by"],
        date=row["date"],
        source=row["source"],
        price_source=row["price_source"] or None,
    )
