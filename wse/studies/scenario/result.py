"""Result of ``wse scenario``: predictions for combinations of settings, and published figures.

An impossible combination has no prediction; ``ruled_out_by`` contains the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

from wse.hardware.number import Grade
from wse.reports.number_text import plural
from wse.reports.result import Doc, Result
from wse.reports.table import Table
from wse.reports.terminal import WIDEST, printable
from wse.studies.compare.result import AssumptionResult
from wse.studies.estimate.drafts.result import AcceptanceResult
from wse.studies.results.operating_points import OperatingPointResult
from wse.studies.scenario.form import NO_DRAFTS, Agreement, Relation
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
"""Operating-point fields that a TiersResult contains for each tier."""


class SpeculationResult(AcceptanceResult):
    """Effect of speculative decoding on a prediction: tokens per pass, and gain in speed.

    In speculative decoding, a faster method, such as a small draft model, proposes tokens. The
    model verifies all of them in one pass.
    """

    draft_tokens: Annotated[int, Doc("tokens that are drafted for each pass; 0 if drafts gain nothing")]
    tokens_per_pass: Annotated[float, Doc("mean tokens that a pass yields, including the one without drafts")]
    gain: Annotated[float, Doc("tokens per second of a user divided by those without drafts")]


class PredictionResult(OperatingPointResult):
    """Predicted speed and cost for a combination of settings.

    The speeds include delays caused by prefill of other users' prompts.
    """

    ttft_s: Annotated[float, Doc("time to first token as measured by a user on a new connection", "s")]
    chips: Annotated[int, Doc("wafers or GPUs, including those of a draft model")]
    most_users: Annotated[int, Doc("maximum number of users whose KV caches fit")]
    speculation: Annotated[SpeculationResult | None, Doc("drafts; absent without drafts")] = None
    grade: Annotated[Grade, Doc("evidence grade of the weakest constant on which the speed depends")]


class TiersResult(Result):
    """Speed and cost of a plain service tier, and of a faster tier with fewer users.

    Both tiers run on the same number of chips.
    """

    plain_users: Annotated[int, Doc("users of the plain tier")]
    plain_tokens_per_s_per_user: Annotated[float, Doc("speed of each user of the plain tier", "tokens/s")]
    plain_usd_per_million_tokens: Annotated[float, Doc("cost of a million tokens of the plain tier", "USD")]
    plain_usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    plain_usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    fast_users: Annotated[int, Doc("maximum number of users that have the requested speed-up; 1 if even one has not")]
    fast_tokens_per_s_per_user: Annotated[float, Doc("speed of each user of the fast tier", "tokens/s")]
    fast_usd_per_million_tokens: Annotated[float, Doc("cost of a million tokens of the fast tier", "USD")]
    fast_usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    fast_usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    speed_up: Annotated[float, Doc("speed of a user of the fast tier divided by that of the plain tier")]
    cost_ratio: Annotated[float, Doc("cost of a token of the fast tier divided by that of the plain tier")]
    reached: Annotated[bool, Doc("whether the requested speed-up is reached")]

    @classmethod
    def of(cls, plain: OperatingPointResult, fast: OperatingPointResult, *, reached: bool) -> TiersResult:
        """Create the record for two service tiers, including their speed and cost ratios.

        Args:
            plain: Speed and cost of the plain tier.
            fast: Speed and cost of the fast tier.
            reached: Whether the fast tier reaches the requested speed-up.
        """
        numbers = {
            f"{tier}_{key}": getattr(point, key)
            for tier, point in (("plain", plain), ("fast", fast))
            for key in TIER_KEYS
        }
        return cls(
            **numbers,
            speed_up=numbers["fast_tokens_per_s_per_user"] / numbers["plain_tokens_per_s_per_user"],
            cost_ratio=numbers["fast_usd_per_million_tokens"] / numbers["plain_usd_per_million_tokens"],
            reached=reached,
        )

    def point(self, tier: str) -> dict[str, float]:
        """Return the users, speed and cost of one tier.

        Args:
            tier: ``plain`` or ``fast``.

        Returns:
            The figures, keyed by the names in `TIER_KEYS`, such as ``tokens_per_s_per_user``.
        """
        return {key: getattr(self, f"{tier}_{key}") for key in TIER_KEYS}


class PublishedResult(Result):
    """A published figure, such as a speed or price, with which predictions are compared."""

    figure: Annotated[str, Doc("name of the figure")]
    value: Annotated[float, Doc("published value")]
    unit: Annotated[str, Doc("unit of the value; empty for a ratio")]
    relation: Annotated[Relation, Doc("`about`, `at_least` or `at_most`: how the true value relates to the published")]
    tolerance: Annotated[float, Doc("relative error that a prediction may have")]
    decides: Annotated[bool, Doc("whether the figure rules combinations out; otherwise it is only shown")]
    evidence: Annotated[str, Doc("how the figure is known, or what is not disclosed")]
    by: Annotated[str, Doc("`vendor` or `independent`")]
    date: Annotated[str | None, Doc("date of the source")] = None
    source: Annotated[str, Doc("address of the source")]
    machines: Annotated[tuple[str, ...] | None, Doc("machines to which the figure applies; absent for all")] = None
    dtypes: Annotated[tuple[str, ...] | None, Doc("element types to which the figure applies; absent for all")] = None
    drafts: Annotated[tuple[str, ...] | None, Doc("drafts to which the figure applies; absent for all")] = None


class AgainstResult(Result):
    """Comparison of one prediction with one published figure: relative error and agreement."""

    published: Annotated[int, Doc("index of the figure in `published`")]
    predicted: Annotated[float, Doc("predicted value, in the unit of the figure")]
    error_pct: Annotated[float, Doc("100 (predicted - published) / published", "%")]
    agreement: Annotated[
        Agreement,
        Doc("`consistent`; `near`: misses a bound by at most the tolerance; or `ruled out`"),
    ]


class CombinationResult(Result):
    """A combination of a scenario's settings, with its prediction compared to published figures.

    If the combination cannot run, it has no prediction, and ``ruled_out_by`` states the reason.
    """

    model: Annotated[str, Doc("name of the model")]
    parameters: Annotated[int, Doc("number of parameters")]
    dtype: Annotated[str, Doc("element type of the weights")]
    machine: Annotated[str, Doc("name of the machine in the scenario, or a description of it")]
    stack: Annotated[str | None, Doc("serving stack of GPUs; absent for wafers")] = None
    kind: Annotated[str, Doc("`wafer` or `gpu`")]
    chip: Annotated[str | None, Doc("name of the wafer or GPU; absent if the combination is impossible")] = None
    chips: Annotated[
        int | None, Doc("wafers or GPUs; absent if no number was requested and the combination is impossible")
    ] = None
    prompt_len: Annotated[int | None, Doc("tokens of each prompt, if the scenario states them")] = None
    users: Annotated[
        int | None, Doc("users in flight, with tiers those of the plain tier; may be absent if impossible")
    ] = None
    drafts: Annotated[str, Doc("name of the drafts, `none` without drafts")]
    other: Annotated[Mapping[str, str | float] | None, Doc("values on further axes of the scenario, by field")] = None
    prediction: Annotated[PredictionResult | None, Doc("predicted speed and cost; absent if it is impossible")] = None
    tiers: Annotated[TiersResult | None, Doc("both tiers; only in scenarios with tiers")] = None
    curve: Annotated[tuple[OperatingPointResult, ...] | None, Doc("operating points, fewest users first")] = None
    against: Annotated[tuple[AgainstResult, ...] | None, Doc("comparison with each published figure that applies")] = (
        None
    )
    agreement: Annotated[
        Agreement | None, Doc("worst agreement with the figures that decide; absent if none applies")
    ] = None
    ruled_out_by: Annotated[tuple[str, ...] | None, Doc("figures that rule it out, or why it is impossible")] = None

    @property
    def settings(self) -> str:
        """Description of the combination, such as ``llama-3-8b as int8 on wafers, 1 wafer``."""
        drafts = "" if self.drafts == NO_DRAFTS else f" with drafts {self.drafts}"
        chips = [] if self.chips is None else [plural(self.chips, "wafer" if self.kind == "wafer" else "GPU")]
        other = [f"{key} {value}" for key, value in (self.other or {}).items()]
        return printable(f"{self.model} as {self.dtype}{drafts} on {', '.join([self.machine_text, *chips, *other])}")

    @property
    def drafts_text(self) -> str:
        """Name of the drafts, and whether they are not used because they are not faster."""
        speculation = None if self.prediction is None else self.prediction.speculation
        if speculation is None or speculation.draft_tokens:
            return self.drafts
        return f"{self.drafts}: not faster, not used"

    @property
    def machine_text(self) -> str:
        """Name of the machine with its serving stack, if it has one, such as ``eight H200 (trtllm)``."""
        return self.machine if self.stack is None else f"{self.machine} ({self.stack})"

    @property
    def speed(self) -> float:
        """Tokens per second per user; 0 if the combination cannot run."""
        return 0.0 if self.prediction is None else self.prediction.tokens_per_s_per_user or 0.0


class ScenarioResult(Result):
    """Result of ``wse scenario``: predictions compared with published figures, and a verdict."""

    name: Annotated[str, Doc("name of the scenario, or the path of its file")]
    title: Annotated[str, Doc("title of the scenario")]
    question: Annotated[str, Doc("question that the scenario answers")]
    verdict: Annotated[
        tuple[str, ...],
        Doc("sentences: how many combinations agree, which is nearest, and which given prices are unused"),
    ]
    plain_speeds: Annotated[
        tuple[float, ...] | None, Doc("speeds of the plain tier per user; absent without tiers", "tokens/s")
    ] = None
    published: Annotated[tuple[PublishedResult, ...], Doc("published figures")]
    combinations: Annotated[tuple[CombinationResult, ...], Doc("all combinations, grouped by machine")]
    economics: Annotated[Mapping[str, AssumptionResult], Doc("assumptions behind power and cost of each machine")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build the tables of published figures and of all combinations, including ruled-out ones.

        Args:
            detail: Whether to show all rows, and all predictions against all published figures.
                Otherwise, long tables are shortened.
            width: Ignored.
        """
        return scenario_tables(self, detail=detail)

    def plot(self) -> Figure:
        """Draw the charts of the scenario as a matplotlib figure."""
        from wse.studies.scenario.drawing import scenario_figure

        return scenario_figure(self)


class ScenarioSummary(Result):
    """Name, title and question of a bundled scenario."""

    name: Annotated[str, Doc("name of the scenario")]
    title: Annotated[str, Doc("title of the scenario")]
    question: Annotated[str, Doc("question that the scenario answers")]


class ScenariosResult(Result):
    """List of the bundled scenarios."""

    scenarios: Annotated[tuple[ScenarioSummary, ...], Doc("scenarios, sorted by name")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build the table with the name, title and question of each bundled scenario."""
        return (scenarios_table(self.scenarios),)
