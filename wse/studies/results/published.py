"""Published speeds of a model, and an estimate next to those of its machine.

Two files come with wse, written by ``tools/pack_public_speeds.py``, with a source in every row:
``wse/data/public_speeds.csv`` has speeds and prices of services, ``wse/data/gpu_speeds.csv`` benchmarks on GPUs.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Final
from urllib.parse import urlsplit

from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import printable
from wse.serving.gpus.weights import FORMATS

SERVICES_FILE: Final = "public_speeds.csv"
GPUS_FILE: Final = "gpu_speeds.csv"
LONGEST_PATH: Final = 60
"""Characters of the path of an address that a line shows; the JSON has the whole address."""
_DRAFTS: Final = {"no": "no", "yes": "yes", "unknown": "not stated", None: "not stated"}


@dataclass(frozen=True, kw_only=True)
class PublicPoint(Result):
    """A published speed of the model, or of a model with the same layers."""

    model: Annotated[str, Doc("the model as its source names it")]
    system: Annotated[str, Doc("the machine or service")]
    machine: Annotated[str | None, Doc("name of the wafer or GPU, where wse has it")] = None
    chips: Annotated[int | None, Doc("number of wafers, GPUs or other chips, where it is known")] = None
    users: Annotated[int | None, Doc("users at the same time, where they are known")] = None
    weight_bits: Annotated[int | None, Doc("bits of a weight, where the source states its type")] = None
    context: Annotated[str | None, Doc("lengths as the source states them: prompt and answer, or the limit")] = None
    tokens_per_s_per_user: Annotated[float, Doc("generated tokens of a user", "1/s")]
    usd_per_million_tokens: Annotated[float | None, Doc("price or cost of a million generated tokens", "USD")] = None
    drafts: Annotated[str | None, Doc("whether tokens are drafted: yes, no or unknown")] = None
    by: Annotated[str, Doc("`vendor` or `independent`")]
    date: Annotated[str, Doc("date of the source")]
    source: Annotated[str, Doc("address of the speed")]
    price_source: Annotated[str | None, Doc("address of the price")] = None


@dataclass(frozen=True, kw_only=True)
class PublishedSpeed(PublicPoint):
    """A published speed on the machine of an estimate, and the ratio of the estimate to it."""

    estimated_tokens_per_s_per_user: Annotated[float, Doc("the estimate that it is compared with", "1/s")]
    ratio: Annotated[float, Doc("the estimate over the published speed")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedSpeed:
    """The speed that an estimate gives a user, and what published speeds must share with it to stand next to it.

    Attributes:
        machine: Name of the wafer or GPU.
        chips: Number of GPUs. None for wafers, whose published speeds are of any number.
        users: Users at the same time.
        dtype: Number format of the weights.
        tokens_per_s_per_user: Generated tokens of a user, without drafts.
        drafted_tokens_per_s_per_user: The same with drafts, where the request asks for drafts.
    """

    machine: str
    chips: int | None = None
    users: int
    dtype: str
    tokens_per_s_per_user: float
    drafted_tokens_per_s_per_user: float | None = None

    def compares_with(self, point: PublicPoint) -> bool:
        """Return whether machine, users and, where the source states them, number of GPUs and bits of weights agree."""
        return (
            (point.machine, point.users) == (self.machine, self.users)
            and (self.chips is None or point.chips in (None, self.chips))
            and point.weight_bits in (None, weight_bits(self.dtype))
        )

    def beside(self, point: PublicPoint) -> PublishedSpeed:
        """Return the published speed with the ratio; speeds with drafts are compared with the estimate with drafts."""
        drafted = None if point.drafts == "no" else self.drafted_tokens_per_s_per_user
        speed = drafted or self.tokens_per_s_per_user
        ratio = speed / point.tokens_per_s_per_user
        return point.convert(PublishedSpeed, estimated_tokens_per_s_per_user=speed, ratio=ratio)


def public_points(spec: ModelSpec) -> tuple[PublicPoint, ...]:
    """Return the published speeds of services of a model with these layers, the fastest first."""
    points = _points(spec, SERVICES_FILE, lambda _: True)
    return tuple(sorted(points, key=lambda point: -point.tokens_per_s_per_user))


def published_speeds(spec: ModelSpec, estimated: EstimatedSpeed) -> tuple[PublishedSpeed, ...] | None:
    """Return at most two published speeds of a model on the machine of an estimate; None where there are none.

    They are the fastest without drafts, and the fastest with drafts. Where no source states that it drafts, the second
    is the fastest of those that do not say.
    """
    comparable = [
        point for file in (SERVICES_FILE, GPUS_FILE) for point in _points(spec, file, estimated.compares_with)
    ]
    groups = {word: [p for p in comparable if p.drafts == word] for word in ("no", "yes", "unknown")}
    shown = [group for group in (groups["no"], groups["yes"] or groups["unknown"]) if group]
    fastest = (max(group, key=lambda point: point.tokens_per_s_per_user) for group in shown)
    return tuple(estimated.beside(point) for point in fastest) or None


def published_table(speeds: Sequence[PublishedSpeed]) -> Table:
    """Return a row for each published speed, with its conditions, its source, and the ratio of the estimate to it."""
    columns = (
        number("tokens_per_s_per_user", "tok/s/user"),
        number("ratio", "estimate", cell=lambda row: f"{row.ratio:.2f} times"),
        Column(key="model", title="model", formatter=printable, priority=3),
        number("chips", "machines", cell=lambda row: "not stated" if row.chips is None else f"{row.chips:,}"),
        Column(key="drafts", title="drafts", cell=lambda row: _DRAFTS[row.drafts]),
        Column(key="by", title="by", formatter=printable),
        Column(key="date", title="date", formatter=printable),
    )
    note = "the fastest without drafts and the fastest with drafts"
    sources = [("source", _short_address(speed.source)) for speed in speeds]
    return Table(columns=columns, rows=speeds, title="Published speeds", note=note, footer=sources)


def weight_bits(dtype: str) -> int:
    """Return the bits of a weight in a number format, without its scales."""
    return int(FORMATS[dtype].bits)


def _points(spec: ModelSpec, file: str, selects: Callable[[PublicPoint], bool]) -> Iterable[PublicPoint]:
    """Return the selected published speeds in a file, of models with these layers."""
    shape = _shape(spec)
    selected = ((name, point) for name, point in _all_points(file) if selects(point))
    return (point for name, point in selected if _shape_of(name) == shape)


@cache
def _all_points(file: str) -> tuple[tuple[str, PublicPoint], ...]:
    """Return all published speeds in a file, each with the name of the configuration of its model."""
    text = (files("wse") / "data" / file).read_text(encoding="utf-8")
    return tuple((row["configuration"], _point(row)) for row in csv.DictReader(text.splitlines()))


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
        machine=row["machine"] or None,
        chips=_count(row["chips"]),
        users=_count(row["users"]),
        weight_bits=_count(row["weight_bits"]),
        context=row["context"] or None,
        tokens_per_s_per_user=float(row["tokens_per_s_per_user"]),
        usd_per_million_tokens=float(price) if price else None,
        drafts=row["drafts"] or None,
        by=row["by"],
        date=row["date"],
        source=row["source"],
        price_source=row["price_source"] or None,
    )


def _count(cell: str) -> int | None:
    return int(cell) if cell else None


def _short_address(address: str) -> str:
    """Host and path of an address, a long path cut."""
    parts = urlsplit(address)
    path = printable(parts.path.rstrip("/"))
    short = path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}..."
    return f"{parts.netloc.removeprefix('www.')}{short}"
