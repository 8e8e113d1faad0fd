"""CompareRequest: the options of ``wse compare``, checked: wafers, mappings and links that are set side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from wse.errors import BadInput
from wse.hardware.quantity import COUNT, whole_number
from wse.serving.goal import COST, LATENCY, Goal
from wse.serving.tiers import PLAIN_SPEED_TOKENS_PER_S
from wse.studies.compare.targets import NO_TARGETS, Targets, check_targets
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options import known_names
from wse.studies.options.option import Option, OptionsOf, check_counts, options_of, read_amount

if TYPE_CHECKING:
    from wse.hardware.spec import WaferSpec

GIGA: Final = 1e9
WITHOUT: Final = (
    *("model", "wafers", "mapping", "capacity", "verify_tokens", "sensitivity", "trace"),
    *("replicas", "draft", "draft_model", "draft_place", "gpu", "network"),
)
"""Options of an estimate that a comparison has of its own, or not at all."""
MICRO: Final = 1e-6
TIMES_THE_FEWEST: Final = (1, 2, 4, 8)
"""Numbers of wafers that are compared unasked, in units of the fewest that hold the model."""
MOST_WAFERS: Final = 1_000
MOST_ROWS: Final = 2_000
BANDWIDTHS_GB_PER_S: Final = (0.1, 10_000.0)
LATENCIES_US: Final = (0.0, 10_000.0)
SPEEDS_TOKENS_PER_S: Final = (0.1, 1e6)


@dataclass(frozen=True, slots=True)
class WaferLink:
    """A link out of a wafer."""

    bytes_per_s: float
    latency_s: float


SLOWEST, FASTEST = WaferLink(8 * GIGA, 20 * MICRO), WaferLink(150 * GIGA, 0.5 * MICRO)
"""Links that are compared unasked beside the wafer's own: eight lanes of PCIe 3.0 (7.9 GB/s) or four of 4.0 behind a
switch that stores and forwards; a wafer's twelve 100-gigabit ports (CS-3 datasheet) with no more latency than a
switch that cuts through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """The options of ``wse compare`` as given.

    Attributes:
        base: What all rows have in common; its ``wafers`` and ``mapping`` do not count.
        wafers: Numbers of wafers; None for 1, 2, 4 and 8 times the fewest that hold the model.
        mappings: Names and files; None for those of ``candidates`` that apply.
        candidates: Mappings that are tried unasked where they apply.
        link_gb_per_s, link_latency_us: Of the links between wafers; None for the wafer's own. Without both the wafer's
            link is compared with ``SLOWEST`` and ``FASTEST``, unless ``own_link`` says that it stands alone.
        gpu: GPUs that are set beside the wafers; None for wafers alone.
        plain_speed_tokens_per_s: Speed of the plain tier where GPUs are compared by speed, tokens/s per user; None for
            the usual one.
        replicas: Equal machines that share the users; None for the fewest that keep the targets.
        targets: Times that rows are to keep, and which are shown; rows are ranked where any is given.
    """

    base: Annotated[
        EstimateRequest,
        OptionsOf(without=WITHOUT),
    ] = field(default_factory=EstimateRequest)
    wafers: Annotated[
        tuple[int, ...] | None,
        Option(
            doc="Numbers of wafers; auto: 1, 2, 4 and 8 times the fewest.",
            panel="Wafer and mapping",
            metavar="1,2,4|auto",
            none="auto",
            read=partial(_counts, "--wafers"),
        ),
    ] = None
    mappings: Annotated[
        tuple[str, ...] | None,
        Option(
            doc="Names of `wse mappings`, TOML files that list regions, or strategies of your own as FILE.py:NAME. "
            "Default: auto; with --detail all.",
            panel="Wafer and mapping",
            metavar="NAME|FILE,...",
            flag="--mapping",
            read=partial(_parts, "--mapping"),
            known_values=known_names.mappings,
        ),
    ] = None
    candidates: tuple[str, ...] = ("auto",)
    link_gb_per_s: Annotated[
        tuple[float, ...] | None,
        Option(
            doc="Bandwidth of links between wafers. Default: the wafer's own, 8 and 150 GB/s.",
            panel="Wafer and mapping",
            metavar="GB/s,...",
            unit="GB/s",
            flag="--link-bandwidth",
            read=partial(_amounts, "--link-bandwidth", "GB/s"),
        ),
    ] = None
    link_latency_us: Annotated[
        tuple[float, ...] | None,
        Option(
            doc="Latency of links between wafers, such as 5us. Default: the wafer's own, 20 and 0.5 µs.",
            panel="Wafer and mapping",
            metavar="TIME,...",
            unit="µs",
            flag="--link-latency",
            read=partial(_amounts, "--link-latency", "µs"),
        ),
    ] = None
    own_link: bool = False
    gpu: Annotated[
        tuple[str | Path, ...] | None,
        Option(
            doc="GPUs to set beside the wafers, speed against cost: a name of `wse gpus`, or a TOML file; repeats.",
            panel="GPUs",
            metavar="NAME|FILE",
            repeats=True,
            known_values=known_names.gpus,
        ),
    ] = None
    plain_speed_tokens_per_s: Annotated[
        float | None,
        Option(
            doc="Speed of the plain tier with --gpu, tokens/s per user; the fast tier is 2.5 times that. Default: "
            f"{PLAIN_SPEED_TOKENS_PER_S:g}.",
            panel="Serving",
            metavar="TOKENS/S",
            flag="--plain-speed",
        ),
    ] = None
    replicas: Annotated[
        int | None,
        Option(
            doc="Equal machines that share the --users; auto: the fewest that keep the targets.",
            panel="Serving",
            metavar="N|auto",
            none="auto",
        ),
    ] = None
    targets: Annotated[Targets, OptionsOf()] = NO_TARGETS

    @property
    def is_ranked(self) -> bool:
        """True if machines are ranked for users, targets or an objective, instead of the verdict on wafers."""
        return (
            self.targets != NO_TARGETS or self.base.serving.users is not None or self.base.serving.objective is not None
        )

    @property
    def goal(self) -> Goal:
        """The users, limits and objective of the ranking: by default cost with users or limits, else latency."""
        targets, users = self.targets, self.base.serving.users
        unasked = COST if users is not None or targets.times() else LATENCY
        return Goal(
            users=users,
            replicas=self.replicas if users is not None else 1,
            ttft_s=targets.ttft,
            tpot_s=targets.tpot,
            objective=self.base.serving.objective or unasked,
        )

    def names(self) -> tuple[str, ...]:
        """Return the mappings, each once."""
        return tuple(dict.fromkeys(self.mappings or self.candidates))

    @property
    def links_are_given(self) -> bool:
        """True if the links that are compared were requested."""
        return self.link_gb_per_s is not None or self.link_latency_us is not None

    def links(self, wafer: WaferSpec) -> tuple[WaferLink, ...]:
        """Return the links that a comparison has rows for, the wafer's own first where it is among them."""
        wafer_link = WaferLink(wafer.wafer_link_bytes_per_s, wafer.wafer_link_latency_s)
        if self.link_gb_per_s is None and self.link_latency_us is None:
            return (wafer_link,) if self.own_link else tuple(dict.fromkeys((wafer_link, SLOWEST, FASTEST)))
        rates = [wafer_link.bytes_per_s] if self.link_gb_per_s is None else [rate * GIGA for rate in self.link_gb_per_s]
        waits = (
            [wafer_link.latency_s] if self.link_latency_us is None else [wait * MICRO for wait in self.link_latency_us]
        )
        return tuple(dict.fromkeys(WaferLink(rate, wait) for rate in rates for wait in waits))


def check(request: CompareRequest) -> None:
    """Refuse what cannot be compared, before anything is loaded.

    Raises:
        BadInput: a number out of range, an empty list, more rows than anybody reads, or a single new token.
        UnknownName: there is no such mapping.
    """
    from wse.studies.estimate.gpus.prepare import check_machine
    from wse.studies.estimate.prepare import check_replicas
    from wse.studies.options.mapping_file import load_mapping

    for name in ("wafers", "mappings", "link_gb_per_s", "link_latency_us", "gpu"):
        if getattr(request, name) == ():
            message = f"{options_of(CompareRequest)[name].flag}: there is no value; give at least one, or leave it out"
            raise BadInput(message)
    if request.gpu is None:
        check_machine(EstimateRequest(gpu_serving=request.base.gpu_serving))
    for name in request.names():
        load_mapping(name)
    for count in request.wafers or ():
        check_counts(wafers=count)
        if count > MOST_WAFERS:
            message = f"--wafers {count}: give at most {MOST_WAFERS:,}"
            raise BadInput(message)
    check_counts(users=request.base.serving.users)
    if request.replicas is not None:
        check_replicas(request.base.serving.users, request.replicas)
    _check_plain_speed(request)
    check_targets(request.targets, request.base.workload.prompt_len, request.base.workload.new_tokens)
    _check_values("--link-bandwidth", request.link_gb_per_s, BANDWIDTHS_GB_PER_S, "GB/s")
    _check_values("--link-latency", request.link_latency_us, LATENCIES_US, "µs")
    rows = len(request.names()) * len(request.wafers or TIMES_THE_FEWEST)
    rows *= len(request.link_gb_per_s or (0,)) * len(request.link_latency_us or (0,))
    if rows > MOST_ROWS:
        message = f"{rows:,} rows: give fewer wafers, mappings or links, for at most {MOST_ROWS:,} rows"
        raise BadInput(message)
    if request.base.workload.new_tokens == 1:
        message = "--new-tokens 1: the prompt gives the first token, and nothing is decoded; give at least 2 to compare"
        raise BadInput(message)


def check_question(question: str | None, request: CompareRequest) -> None:
    """Refuse options that do not go with each other. Raises BadInput.

    A question is about wafers alone, and about no users or targets. Without a question, a link joins several wafers.
    """
    if question is not None and request.gpu is not None:
        message = f"--question {question}: is about wafers alone; leave it out, or leave out --gpu"
        raise BadInput(message)
    if request.is_ranked and question is not None:
        message = (
            f"--question {question}: --users, --objective, --ttft, --tpot, --lengths, --top and --pareto rank "
            "machines; leave out one or the other"
        )
        raise BadInput(message)
    if question is None and request.links_are_given and request.wafers == (1,):
        message = "--wafers 1: no link joins one wafer to others; leave out --link-bandwidth and --link-latency"
        raise BadInput(message)
    if request.is_ranked:
        check(request)


def _check_plain_speed(request: CompareRequest) -> None:
    """Refuse a speed of the plain tier that is out of range, or where no tiers are compared. Raises BadInput."""
    speed, (low, high) = request.plain_speed_tokens_per_s, SPEEDS_TOKENS_PER_S
    if speed is None:
        return
    if not low <= speed <= high:
        message = f"--plain-speed {speed:g}: give tokens/s per user from {low:g} to {high:,.0f}"
        raise BadInput(message)
    if request.is_ranked or request.gpu is None:
        remedy = "give --tpot in its place" if request.is_ranked else "give --gpu NAME as well"
        message = f"--plain-speed {speed:g}: only --gpu without users or targets has tiers; {remedy}, or leave it out"
        raise BadInput(message)


def _check_values(option: str, values: tuple[float, ...] | None, bounds: tuple[float, float], unit: str) -> None:
    low, high = bounds
    for value in values or ():
        if not (math.isfinite(value) and low <= value <= high):
            message = f"{option} {value:g}: give numbers from {low:g} to {high:g} {unit}"
            raise BadInput(message)


def _parts(option: str, text: str) -> tuple[str, ...]:
    """Return the values of a list with commas between. Raises BadInput where one is empty."""
    parts = tuple(part.strip() for part in text.split(","))
    if "" in parts:
        message = f"{option} {text!r}: give values with commas between"
        raise BadInput(message)
    return parts


def _counts(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers of a list. Raises BadInput where a part is none."""
    counts = []
    for part in _parts(option, text):
        if part == "auto":
            message = f"{option} {text!r}: auto stands alone; give whole numbers with commas between, or auto"
            raise BadInput(message)
        count = whole_number(part, COUNT)
        if count is None:
            message = f"{option} {part!r}: give a whole number of at least 1, or auto"
            raise BadInput(message)
        counts.append(count)
    return tuple(counts)


def _amounts(option: str, unit: str, text: str) -> tuple[float, ...]:
    """Return the numbers of a list, converted to ``unit``. Raises BadInput as of `read_amount`."""
    return tuple(read_amount(option, part, unit) for part in _parts(option, text))
