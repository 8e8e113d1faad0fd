"""Published speeds of a model, and their comparison with an estimate.

Two data files are bundled with wse: ``wse/data/public_speeds.csv`` contains speeds and prices of
services, and ``wse/data/gpu_speeds.csv`` contains GPU benchmarks. They are written by
``tools/pack_public_speeds.py``, and each row states its source.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count
from wse.reports.number_text import count, plural
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import printable
from wse.serving.gpus.weights import FORMATS

SERVICES_FILE: Final = "public_speeds.csv"
GPUS_FILE: Final = "gpu_speeds.csv"
LONGEST_PATH: Final = 60
"""Maximum length of the path of a web address in a table. The JSON contains the whole address."""
DRAFTS_TEXTS: Final = {"no": "no", "yes": "yes", "unknown": "not stated", None: "not stated"}
"""Whether a service uses speculative decoding, as displayed, keyed by the word in the file."""

_NUMBERS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("chips", "users", "weight_bits"), int),
    **dict.fromkeys(("tokens_per_s_per_user", "usd_per_million_tokens"), float),
}
"""Types of the columns that are numbers."""
BY_TEXTS: Final = {"vendor": "the vendor", "independent": "others"}
"""Who states a published speed, as displayed, keyed by the word in the file."""


class PublicPoint(Result):
    """A published speed of the model, or of a model with the same layers.

    The fields also record the conditions under which the source measured or offers this speed, such
    as the machine and the number of users. Fields that the source does not specify are None.
    """

    model: Annotated[str, Doc("the model as its source names it")]
    system: Annotated[str, Doc("the machine or service")]
    machine: Annotated[str | None, Doc("name of the wafer or GPU, if wse knows it")] = None
    chips: Annotated[int | None, Doc("number of wafers, GPUs or other chips, if known")] = None
    users: Annotated[int | None, Doc("concurrent users, if known")] = None
    weight_bits: Annotated[int | None, Doc("bits of a weight, if the source states its type")] = None
    context: Annotated[str | None, Doc("lengths as the source states them: prompt and output, or the limit")] = None
    tokens_per_s_per_user: Annotated[float, Doc("generated tokens of a user", "1/s")]
    usd_per_million_tokens: Annotated[float | None, Doc("price or cost of a million generated tokens", "USD")] = None
    drafts: Annotated[str | None, Doc("whether tokens are drafted: yes, no or unknown")] = None
    by: Annotated[str, Doc("`vendor` or `independent`")]
    date: Annotated[str, Doc("date of the source")]
    source: Annotated[str, Doc("web address of the speed")]
    price_source: Annotated[str | None, Doc("web address of the price")] = None


class PublishedSpeed(PublicPoint):
    """A published speed, compared with an estimate for the same machine.

    The ratio is the estimate divided by the published speed.
    """

    estimated_tokens_per_s_per_user: Annotated[float, Doc("the estimated speed", "1/s")]
    estimated_chips: Annotated[int, Doc("number of wafers or GPUs of the estimate")]
    estimated_users: Annotated[int, Doc("concurrent users of the estimate")]
    ratio: Annotated[float, Doc("the estimated speed, divided by the published speed")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedSpeed:
    """Estimated speed per user, with the conditions that a comparable published speed must share.

    Attributes:
        machine: Name of the wafer or GPU.
        chips: Number of wafers or GPUs.
        same_chips_only: Whether only published speeds for the same number of chips are comparable.
            True for GPUs. False for wafers, because a service uses as many wafers as the model
            needs.
        users: Concurrent users.
        dtype: Number format of the weights.
        tokens_per_s_per_user: Tokens/s generated per user without speculative decoding.
        drafted_tokens_per_s_per_user: Tokens/s generated per user with speculative decoding; None
            if the request does not use it.
        draft_chips: Number of additional wafers that only the draft model uses.
    """

    machine: str
    chips: int
    same_chips_only: bool
    users: int
    dtype: str
    tokens_per_s_per_user: float
    drafted_tokens_per_s_per_user: float | None = None
    draft_chips: int = 0

    def compares_with(self, point: PublicPoint) -> bool:
        """Return whether a published speed can be compared with the estimate.

        The machine and the number of users must be the same. If the source states the bits per
        weight, or for GPUs the number of GPUs, these must be the same as well.
        """
        return (
            (point.machine, point.users) == (self.machine, self.users)
            and (not self.same_chips_only or point.chips in (None, self.chips))
            and point.weight_bits in (None, weight_bits(self.dtype))
        )

    def compared_with(self, point: PublicPoint) -> PublishedSpeed:
        """Compare a published speed with the estimate, and return both with their ratio.

        The ratio is the estimate divided by the published speed. If the request uses speculative
        decoding, the estimate with drafts is used, unless the service is known to use no drafts.
        """
        drafted_speed = None if point.drafts == "no" else self.drafted_tokens_per_s_per_user
        speed = drafted_speed or self.tokens_per_s_per_user
        draft_chips = self.draft_chips if drafted_speed else 0
        ratio = speed / point.tokens_per_s_per_user
        return point.convert(
            PublishedSpeed,
            estimated_tokens_per_s_per_user=speed,
            estimated_chips=self.chips + draft_chips,
            estimated_users=self.users,
            ratio=ratio,
        )


def public_points(spec: ModelSpec) -> tuple[PublicPoint, ...]:
    """Return the published service speeds of models with the same layers, fastest first.

    Two models are assumed to have the same layers if their layer counts, hidden sizes and parameter
    counts are equal.
    """
    points = _points(spec, SERVICES_FILE, lambda _: True)
    return tuple(sorted(points, key=lambda point: -point.tokens_per_s_per_user))


def published_speeds(spec: ModelSpec, estimated: EstimatedSpeed) -> tuple[PublishedSpeed, ...] | None:
    """Return up to three published speeds that can be compared with an estimate.

    Args:
        spec: The model. Speeds of other models with the same layers are also considered.
        estimated: The estimated speed and its conditions, such as the number of users.

    Returns:
        The fastest speed without speculative decoding, the fastest with it, and the fastest whose
        source does not state whether it is used. None if no published speed is comparable.
    """
    comparable = [
        point for file in (SERVICES_FILE, GPUS_FILE) for point in _points(spec, file, estimated.compares_with)
    ]
    groups = ([p for p in comparable if p.drafts == word] for word in ("no", "yes", "unknown"))
    fastest_points = (max(group, key=lambda point: point.tokens_per_s_per_user) for group in groups if group)
    return tuple(estimated.compared_with(point) for point in fastest_points) or None


def published_table(speeds: Sequence[PublishedSpeed], layout_users: int = 1) -> Table:
    """Build the table of published speeds, each with the ratio of the estimate to it.

    Args:
        speeds: The published speeds.
        layout_users: Number of users for which the layout of the estimate was chosen.
    """
    columns = (
        number("tokens_per_s_per_user", "published"),
        number("ratio", "ratio", cell=lambda row: f"{row.ratio:.2f}"),
        Column(key="estimated_chips", title="estimate for", cell=_estimated_machine, priority=1),
        number("chips", "chips", cell=lambda row: "not stated" if row.chips is None else f"{row.chips:,}"),
        Column(key="drafts", title="drafts", cell=lambda row: DRAFTS_TEXTS[row.drafts]),
        Column(key="date", title="date", formatter=date_text),
    )
    estimate = "users and machine of the estimate; with drafts if --draft is given and the published speed may be too"
    if any(speed.estimated_users < layout_users for speed in speeds):
        estimate += f"; the layout is the one chosen for {plural(layout_users, 'user')}"
    footer = [
        (
            "published",
            "the fastest for models with the same layers, this type of machine and these users, for each value of the "
            "column drafts",
        ),
        ("ratio", "estimate divided by published speed"),
        ("estimate for", estimate),
        ("chips", "wafers or GPUs of the published machine"),
        ("drafts", "whether the published speed uses speculative decoding"),
    ]
    figures_by_source: dict[str, list[str]] = {}
    for speed in speeds:
        source = f"{printable(speed.model)}, stated by {BY_TEXTS[speed.by]}: {_short_address(speed.source)}"
        figures_by_source.setdefault(source, []).append(count(speed.tokens_per_s_per_user))
    footer += [(f"source of {', '.join(figures)}", source) for source, figures in figures_by_source.items()]
    title = "Published speeds and the estimate"
    return Table(columns=columns, rows=speeds, title=title, note="tokens/s per user", footer=footer)


def date_text(date: str) -> str:
    """Return the date of a source as text; "undated" if it is unknown."""
    return printable(date.replace("n.d.", "undated"))


def _estimated_machine(speed: PublishedSpeed) -> str:
    """Describe the estimate to which a published speed is compared, such as "1 user on 2 wse3"."""
    return f"{plural(speed.estimated_users, 'user')} on {speed.estimated_chips:,} {printable(speed.machine or '')}"


def weight_bits(dtype: str) -> int:
    """Return the bits per weight of a number format such as ``fp8``, excluding block scales."""
    return int(FORMATS[dtype].bits)


def _points(spec: ModelSpec, file: str, selects: Callable[[PublicPoint], bool]) -> Iterable[PublicPoint]:
    """Return the published speeds of models with the same layers from a bundled file.

    Args:
        spec: The model.
        file: Name of the file in ``wse/data``.
        selects: Predicate that returns whether to include a published speed.
    """
    shape = _shape(spec)
    selected = ((name, point) for name, point in _all_points(file) if selects(point))
    return (point for name, point in selected if _shape_of(name) == shape)


@cache
def _all_points(file: str) -> tuple[tuple[str, PublicPoint], ...]:
    """Return all rows of a file of published speeds, as (model configuration name, speed) pairs.

    Empty cells are unknown values.
    """
    text = (files("wse") / "data" / file).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    cells = ({name: _NUMBERS.get(name, str)(cell) for name, cell in row.items() if cell} for row in rows)
    return tuple((row["configuration"], PublicPoint.from_record(row)) for row in cells)


@cache
def _shape_of(configuration: str) -> tuple[int, int, int]:
    """Return the layer count, hidden size and parameter count of the bundled model of this name."""
    from wse.models.load import load_model  # slow to load, and not needed to read a result

    return _shape(load_model(configuration, with_weights=False).spec)


def _shape(spec: ModelSpec) -> tuple[int, int, int]:
    """Return the layer count, hidden size and parameter count of a model.

    Models for which these three numbers are equal are assumed to have the same layers.
    """
    return spec.layer_count, spec.hidden_size, parameter_count(spec)


def _short_address(address: str) -> str:
    """Return the host and path of a web address, shortening a path longer than `LONGEST_PATH`."""
    parts = urlsplit(address)
    path = printable(parts.path.rstrip("/"))
    short_path = path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}..."
    return f"{parts.netloc.removeprefix('www.')}{short_path}"
