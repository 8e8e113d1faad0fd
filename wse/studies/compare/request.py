"""CompareRequest: the options of ``wse compare``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from wse.errors import BadInput
from wse.hardware.quantity import COUNT, whole_number
from wse.option import Option
from wse.serving.goal import COST, LATENCY, PLAIN_SPEED_REASON, PLAIN_SPEED_TOKENS_PER_S, Goal
from wse.studies.compare.targets import NO_TARGETS, Targets, read_parts
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options import known_names
from wse.studies.options.amounts import read_amount
from wse.studies.options.option import OptionsOf

if TYPE_CHECKING:
    from wse.hardware.spec import WaferSpec

GIGA: Final = 1e9
WITHOUT: Final = (
    *("model", "wafers", "mapping", "capacity", "verify_tokens", "sensitivity", "uncertainty", "trace"),
    "most_users",
    *("replicas", "draft", "draft_model", "draft_place", "gpu", "network"),
)
"""Options of an estimate that a comparison defines differently, or does not have."""
TIMES_THE_FEWEST: Final = (1, 2, 4, 8)
"""Default numbers of wafers, as multiples of the fewest on which the model fits."""
SEPARATED: Final = "give values separated by commas"
"""Remedy for lists of values in which one is empty."""


@dataclass(frozen=True, slots=True)
class WaferLink:
    """Bandwidth and latency of the connection from one wafer to the next."""

    bytes_per_s: float
    latency_s: float


SLOWEST, FASTEST = WaferLink(8 * GIGA, 20e-6), WaferLink(150 * GIGA, 0.5e-6)
"""Links that are compared by default, along with the wafer's own link.

The slowest one is eight lanes of PCIe 3.0 (7.9 GB/s) or four of PCIe 4.0 behind a store-and-forward
switch. The fastest one is a wafer's twelve 100-gigabit ports (CS-3 datasheet) with the latency of a
cut-through switch.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """Options of ``wse compare``, as the user states them.

    Attributes:
        base: Options that apply to all compared machines. Its ``wafers`` and ``mapping`` are
            ignored.
        wafers: Numbers of wafers to compare; auto: 1, 2, 4 and 8 times the fewest. With --users or
            targets but without --pareto: 1 and 2 times the fewest, larger multiples as long as the
            largest is the best, and numbers near the best.
        mappings: Mappings to compare: names of `wse mappings`, TOML files that list regions, or
            your own strategies as FILE.py:NAME. Default: auto.
        candidates: Mappings that are compared if none are requested.
        link_gb_per_s: Bandwidths of links between wafers. Default: the wafer's own bandwidth, 8
            GB/s and 150 GB/s.
        link_latency_us: Latencies of links between wafers, such as 5us. Default: the wafer's own
            latency, 20us and 500ns.
        own_link: Whether only the wafer's own link is compared if no other link is requested.
        gpu: GPU to compare with the wafers in speed and cost: a name of `wse gpus`, or a TOML file;
            repeats.
        plain_speed_tokens_per_s: Speed of the plain service tier in tokens/s per user, if wafers
            are compared with GPUs. None for the default speed.
        replicas: Number of identical machines that share the --users; auto: for each layout, the
            fewest that meet the targets; without targets, also 2, 4, 8 ... of the smaller machines.
        targets: Latency limits, request lengths, and rows to show. If users, limits or an objective
            are requested, machines are ranked.
    """

    base: Annotated[EstimateRequest, OptionsOf(without=WITHOUT)] = field(default_factory=EstimateRequest)
    wafers: Annotated[
        tuple[int, ...] | None,
        Option(panel="Wafer and mapping", metavar="1,2,4|auto", none="auto", read=partial(_counts, "--wafers")),
    ] = None
    mappings: Annotated[
        tuple[str, ...] | None,
        Option(
            panel="Wafer and mapping",
            metavar="NAME|FILE,...",
            flag="--mapping",
            read=partial(read_parts, "--mapping", SEPARATED),
            known_values=known_names.mappings,
        ),
    ] = None
    candidates: tuple[str, ...] = ("auto",)
    link_gb_per_s: Annotated[
        tuple[float, ...] | None,
        Option(
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
        Option(panel="GPUs", metavar="NAME|FILE", repeats=True, known_values=known_names.gpus),
    ] = None
    plain_speed_tokens_per_s: Annotated[
        float | None,
        Option(
            doc="Speed of the plain service tier with --gpu, in tokens/s per user; the fast tier is 2.5 times as fast. "
            f"Default: {PLAIN_SPEED_TOKENS_PER_S:g}, because {PLAIN_SPEED_REASON}.",
            panel="Serving",
            metavar="TOKENS/S",
            flag="--plain-speed",
        ),
    ] = None
    replicas: Annotated[int | None, Option(panel="Serving", none="auto")] = None
    targets: Annotated[Targets, OptionsOf()] = NO_TARGETS

    @property
    def is_ranked(self) -> bool:
        """Whether machines are ranked, because users, latency limits or an objective are given."""
        return (
            self.targets != NO_TARGETS or self.base.serving.users is not None or self.base.serving.objective is not None
        )

    @property
    def goal(self) -> Goal:
        """Users, latency limits and objective by which machines are ranked.

        The default objective is cost if users or limits are given, and latency otherwise.
        """
        targets, users = self.targets, self.base.serving.users
        is_limited = users is not None or targets.ttft is not None or targets.tpot is not None
        return Goal(
            users=users,
            replicas=self.replicas if users is not None else 1,
            ttft_s=targets.ttft,
            tpot_s=targets.tpot,
            objective=self.base.serving.objective or (COST if is_limited else LATENCY),
        )

    def names(self) -> tuple[str, ...]:
        """Return the names or files of the mappings to compare, in order, without repetitions."""
        return tuple(dict.fromkeys(self.mappings or self.candidates))

    @property
    def links_are_given(self) -> bool:
        """True if bandwidths or latencies of links between wafers are requested."""
        return self.link_gb_per_s is not None or self.link_latency_us is not None

    def links(self, wafer: WaferSpec) -> tuple[WaferLink, ...]:
        """Return the links between wafers to compare.

        These are all combinations of the requested bandwidths and latencies. The wafer's own link
        is the first if it is one of them. If neither is requested, they are the wafer's own link
        and the two extremes `SLOWEST` and `FASTEST`, in this order. With the option ``own_link``,
        only the wafer's own link is compared.

        Args:
            wafer: Wafer, for the bandwidth and latency of its own link.
        """
        wafer_link = WaferLink(wafer.wafer_link_bytes_per_s, wafer.wafer_link_latency_s)
        if self.link_gb_per_s is None and self.link_latency_us is None:
            return (wafer_link,) if self.own_link else tuple(dict.fromkeys((wafer_link, SLOWEST, FASTEST)))
        rates = [wafer_link.bytes_per_s] if self.link_gb_per_s is None else [rate * GIGA for rate in self.link_gb_per_s]
        latencies_s = [wafer_link.latency_s]
        if self.link_latency_us is not None:
            latencies_s = [latency_us / 1e6 for latency_us in self.link_latency_us]  # 5 / 1e6 == 5e-6
        links = dict.fromkeys(WaferLink(rate, latency_s) for rate in rates for latency_s in latencies_s)
        return tuple(sorted(links, key=lambda link: link != wafer_link))


def _counts(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of a comma-separated list such as ``1,2,4``.

    Raises:
        BadInput: An item is not a whole number of at least 1.
    """
    counts = []
    for part in read_parts(option, SEPARATED, text):
        if part == "auto":
            raise BadInput(
                f"{option} {text!r}: auto cannot be in a list; give whole numbers separated by commas, or auto"
            )
        count = whole_number(part, COUNT)
        if count is None:
            raise BadInput(f"{option} {part!r}: give a whole number of at least 1, or auto")
        counts.append(count)
    return tuple(counts)


def _amounts(option: str, unit: str, text: str) -> tuple[float, ...]:
    """Return the numbers of a comma-separated list such as ``500ns,5us``, converted to ``unit``.

    Raises:
        BadInput: An item cannot be converted, as for `read_amount`.
    """
    return tuple(read_amount(option, part, unit) for part in read_parts(option, SEPARATED, text))
