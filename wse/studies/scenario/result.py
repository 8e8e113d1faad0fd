"""ScenarioResult: combinations of settings, what each is predicted to give, and how that agrees with what is published.

A combination that cannot be has no prediction, and the reason among what rules it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from wse.hardware.number import Grade
from wse.reports.result import Doc, Result
from wse.reports.table import Table
from wse.reports.terminal import WIDEST, plural, printable
from wse.studies.compare.result import AssumptionResult
from wse.studies.estimate.drafts.result import AcceptanceResult
from wse.studies.results.operating_points import OperatingPointResult
from wse.studies.scenario.form import NO_DRAFTS, Agreement, Confidence, Relation
from wse.studies.scenario.tables import scenario_tables, scenarios_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIER_KEYS: Final = (
    "users",
    "tokens_per_s_per_user",
    "usd_per_million_tokens",
    "usd_per_million_tokens_low",
    "usd_per_million_tokens_high",
)
"""Fields of an operating point that results have of each tier."""


@dataclass(frozen=True, kw_only=True)
class SpeculationResult(AcceptanceResult):
    """The drafts of a combination."""

    draft_tokens: Annotated[int, Doc("tokens that are drafted for each pass; 0 where none gains")]
    tokens_per_pass: Annotated[float, Doc("tokens that a pass yields, its own one among them")]
    gain: Annotated[float, Doc("times as many tokens a second of a user as without drafts")]


@dataclass(frozen=True, kw_only=True)
class PredictionResult(OperatingPointResult):
    """The predicted speed and cost of a combination, while prompts of other users are read."""

    ttft_s: Annotated[float, Doc("time to first token as a user meets it, on a new connection", "s")]
    chips: Annotated[int, Doc("wafers or GPUs, those of a draft model of its own among them")]
    most_users: Annotated[int, Doc("users whose caches fit")]
    speculation: Annotated[SpeculationResult | None, Doc("drafts; absent without any")] = None
    grade: Annotated[Grade, Doc("grade of the weakest constant that the speed rests on")]


@dataclass(frozen=True, kw_only=True)
class TiersResult(Result):
    """An ordinary tier, and a fast one of fewer users on the same machines."""

    ordinary_users: Annotated[int, Doc("users of the ordinary tier")]
    ordinary_tokens_per_s_per_user: Annotated[float, Doc("tokens of each of them", "tokens/s")]
    ordinary_usd_per_million_tokens: Annotated[float, Doc("dollars of a million of its tokens", "USD")]
    ordinary_usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    ordinary_usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    fast_users: Annotated[
        int, Doc("the most users who are each so many times as fast as asked for; 1 where one alone is not")
    ]
    fast_tokens_per_s_per_user: Annotated[float, Doc("tokens of each of them", "tokens/s")]
    fast_usd_per_million_tokens: Annotated[float, Doc("dollars of a million of its tokens", "USD")]
    fast_usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    fast_usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    speed_up: Annotated[float, Doc("speed of a user of the fast tier over that of the ordinary one")]
    cost_ratio: Annotated[float, Doc("cost of a token of the fast tier over that of the ordinary one")]
    reached: Annotated[bool, Doc("whether the speed-up that was asked for is reached")]

    @classmethod
    def of(cls, ordinary: OperatingPointResult, fast: OperatingPointResult, *, reached: bool) -> TiersResult:
        """Return the tiers of two operating points."""
        numbers = {
            f"{tier}_{key}": getattr(point, key)
            for tier, point in (("ordinary", ordinary), ("fast", fast))
            for key in TIER_KEYS
        }
        return cls(
            **numbers,
            speed_up=numbers["fast_tokens_per_s_per_user"] / numbers["ordinary_tokens_per_s_per_user"],
            cost_ratio=numbers["fast_usd_per_million_tokens"] / numbers["ordinary_usd_per_million_tokens"],
            reached=reached,
        )

    def point(self, tier: str) -> dict[str, float]:
        """Return the numbers of a tier, ``ordinary`` or ``fast``, by key of an operating point."""
        return {key: getattr(self, f"{tier}_{key}") for key in TIER_KEYS}


@dataclass(frozen=True, kw_only=True)
class PublishedResult(Result):
    """A published figure that predictions are set against."""

    figure: Annotated[str, Doc("what it is of: a name of a figure")]
    value: Annotated[float, Doc("what is published")]
    unit: Annotated[str, Doc("its unit; empty for a ratio")]
    relation: Annotated[Relation, Doc("`about`, `at_least` or `at_most`: how the true figure relates to it")]
    tolerance: Annotated[float, Doc("share that a prediction may be off")]
    decides: Annotated[bool, Doc("whether it rules combinations out; else it is shown alone")]
    confidence: Annotated[Confidence, Doc("how sure a prediction can be set against it: `high`, `medium` or `low`")]
    reason: Annotated[str, Doc("why no more confidence")]
    by: Annotated[str, Doc("`vendor` or `independent`")]
    date: Annotated[str | None, Doc("date of the source")] = None
    source: Annotated[str, Doc("address of the source")]
    machines: Annotated[tuple[str, ...] | None, Doc("names of the machines that it is of; absent where of all")] = None
    dtypes: Annotated[tuple[str, ...] | None, Doc("element types that it is of; absent where of all")] = None
    drafts: Annotated[tuple[str, ...] | None, Doc("names of drafts that it is of; absent where of all")] = None


@dataclass(frozen=True, kw_only=True)
class AgainstResult(Result):
    """A prediction against a published figure."""

    published: Annotated[int, Doc("index of the figure in `published`")]
    predicted: Annotated[float, Doc("what is predicted, in the figure's unit")]
    error_pct: Annotated[float, Doc("predicted over published, less 1", "%")]
    agreement: Annotated[
        Agreement,
        Doc("`consistent`; `near`: past the bound by less than the tolerance; or `ruled out`"),
    ]


@dataclass(frozen=True, kw_only=True)
class CombinationResult(Result):
    """A combination of settings."""

    model: Annotated[str, Doc("the model")]
    parameters: Annotated[int, Doc("its parameters")]
    dtype: Annotated[str, Doc("element type of its weights")]
    machine: Annotated[str, Doc("name of the machine in the scenario, or the machine in words")]
    kind: Annotated[str, Doc("`wafer` or `gpu`")]
    chip: Annotated[str | None, Doc("name of the wafer or GPU; absent where it cannot be")] = None
    chips: Annotated[int | None, Doc("wafers or GPUs; absent where as many as needed are, and none hold it")] = None
    prompt_len: Annotated[int | None, Doc("tokens of each prompt, where the scenario says how many")] = None
    users: Annotated[
        int | None, Doc("users at the same time, with tiers those of the ordinary one; absent where it cannot be")
    ] = None
    drafts: Annotated[str, Doc("name of the drafts, `none` without any")]
    other: Annotated[Mapping[str, str | float] | None, Doc("values on further axes of the scenario, by field")] = None
    prediction: Annotated[PredictionResult | None, Doc("what it gives; absent where it cannot be")] = None
    tiers: Annotated[TiersResult | None, Doc("of scenarios with tiers")] = None
    curve: Annotated[tuple[OperatingPointResult, ...] | None, Doc("as users vary, the fewest first")] = None
    against: Annotated[tuple[AgainstResult, ...] | None, Doc("against each published figure that is of it")] = None
    agreement: Annotated[Agreement | None, Doc("with all of them; absent where nothing is published")] = None
    ruled_out_by: Annotated[tuple[str, ...] | None, Doc("figures that rule it out, or why it cannot be")] = None

    @property
    def settings(self) -> str:
        """The combination in words."""
        drafts = "" if self.drafts == NO_DRAFTS else f" with drafts {self.drafts}"
        chips = [] if self.chips is None else [plural(self.chips, "wafer" if self.kind == "wafer" else "GPU")]
        other = [f"{key} {value}" for key, value in (self.other or {}).items()]
        return printable(f"{self.model} as {self.dtype}{drafts} on {', '.join([self.machine, *chips, *other])}")

    @property
    def speed(self) -> float:
        """Tokens/s of a user; 0 where it cannot be."""
        return 0.0 if self.prediction is None else self.prediction.tokens_per_s_per_user or 0.0


@dataclass(frozen=True, kw_only=True)
class ScenarioResult(Result):
    """A scenario: what combinations of settings give, and which agree with what is published."""

    name: Annotated[str, Doc("name of the scenario, or the path of its file")]
    title: Annotated[str, Doc("its title")]
    question: Annotated[str, Doc("the question that it answers")]
    verdict: Annotated[tuple[str, ...], Doc("how many combinations agree, and which is nearest")]
    published: Annotated[tuple[PublishedResult, ...], Doc("published figures")]
    combinations: Annotated[tuple[CombinationResult, ...], Doc("all combinations, machine by machine")]
    economics: Annotated[Mapping[str, AssumptionResult], Doc("assumptions that power and dollars rest on, by machine")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Predicted against published, and the combinations; all of them with ``detail``."""
        return scenario_tables(self, detail=detail)

    def plot(self) -> Figure:
        """Return the drawings of the scenario: a figure of matplotlib."""
        from wse.studies.scenario.plot import scenario_figure

        return scenario_figure(self)


@dataclass(frozen=True, kw_only=True)
class ScenarioSummary(Result):
    """A scenario that comes with wse."""

    name: Annotated[str, Doc("its name")]
    title: Annotated[str, Doc("its title")]
    question: Annotated[str, Doc("the question that it answers")]


@dataclass(frozen=True, kw_only=True)
class ScenariosResult(Result):
    """The scenarios that come with wse."""

    scenarios: Annotated[tuple[ScenarioSummary, ...], Doc("scenarios, by name")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the scenarios in one table."""
        return (scenarios_table(self.scenarios),)
