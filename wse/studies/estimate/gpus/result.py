"""GpuEstimateResult: what a model on GPUs gives its users, and the tables that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from wse.hardware.number import Grade
from wse.reports.price import PriceEnds, price_text
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, printable, seconds
from wse.studies.estimate.drafts.result import DraftPlanResult, draft_table
from wse.studies.estimate.gpus.answer import TERMS, gpu_answer_tables
from wse.studies.estimate.grades import GradeResult
from wse.studies.results.operating_points import ServingResult, points_table
from wse.studies.results.published import PublishedSpeed, published_table

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class GpuModelResult(Result):
    """The model and the types that it is held in."""

    name: Annotated[str, Doc("name of the model")]
    parameters: Annotated[int, Doc("parameters, tied ones once")]
    dtype: Annotated[str, Doc("number format of the weights; of mixtures in 4 bits of the experts alone")]
    cache_bits: Annotated[int, Doc("of an element of the KV cache", "bits")]
    bytes: Annotated[int, Doc("weights on all GPUs", "B")]


@dataclass(frozen=True, kw_only=True)
class GpuMachineResult(Result):
    """A GPU."""

    name: Annotated[str, Doc("name of the GPU")]
    generation: Annotated[str, Doc("its generation")]
    hbm_bytes: Annotated[int, Doc("its memory", "B")]
    hbm_bytes_per_s: Annotated[float, Doc("stated bandwidth of that", "B/s")]


@dataclass(frozen=True, kw_only=True)
class GpuSystemResult(Result):
    """GPUs and software that serve the model."""

    gpus: Annotated[int, Doc("GPUs")]
    stack: Annotated[str, Doc("the serving stack")]
    software: Annotated[str, Doc("the versions that it stands for")]
    parallelism: Annotated[str, Doc("how the model is cut: `tensor`, `experts` or `data`")]


@dataclass(frozen=True, kw_only=True)
class GpuMemoryResult(Result):
    """The memory of all GPUs together."""

    weight_bytes: Annotated[int, Doc("weights", "B")]
    draft_bytes: Annotated[
        int | None,
        Doc("room that the weights of a draft take; of one on a single GPU as much is left free on each", "B"),
    ] = None
    kv_bytes_per_token: Annotated[float, Doc("KV cache of a token, without that of a draft", "B")]
    kv_capacity_tokens: Annotated[int, Doc("tokens of all users that fit the cache, where no window forgets any")]
    kv_capacity_users: Annotated[int, Doc("users with the prompt and the answer asked for whose caches fit")]


@dataclass(frozen=True, kw_only=True)
class GpuPrefillResult(Result):
    """The prompt of a user."""

    s: Annotated[float, Doc("a prompt that is read alone", "s")]
    tokens_per_s: Annotated[float, Doc("tokens of a prompt over TTFT", "tokens/s")]


@dataclass(frozen=True, kw_only=True)
class GpuTpotParts(Result):
    """The mean time between two tokens of a user by term."""

    weights_s: Annotated[float, Doc("reading weights", "s")]
    cache_s: Annotated[float, Doc("reading the KV cache", "s")]
    compute_s: Annotated[float, Doc("products", "s")]
    launch_s: Annotated[float, Doc("launching and synchronising kernels", "s")]
    all_reduce_s: Annotated[float, Doc("all-reduces: waiting for the other GPUs", "s")]
    crossing_s: Annotated[float, Doc("all-reduces: vectors on the links", "s")]
    host_s: Annotated[float, Doc("the host, between passes and for each user", "s")]
    prompts_s: Annotated[float, Doc("reading the prompts of other users", "s")]


@dataclass(frozen=True, kw_only=True)
class GpuLatencyResult(Result):
    """Times that a user sees while others come and go."""

    ttft_s: Annotated[float, Doc("expected time to first token: the rest of a pass, and the prompt beside others", "s")]
    tpot_s: Annotated[float, Doc("time per output token behind the first", "s")]
    tpot_by: Annotated[GpuTpotParts, Doc("the same by term")]
    bound_s: Annotated[float, Doc("the least that decoding takes at stated rates, with perfect software", "s")]
    request_s: Annotated[float, Doc("the whole answer, prompt and all", "s")]


@dataclass(frozen=True, kw_only=True)
class GpuDecodeResult(Result):
    """Rates of generated tokens while users come and go."""

    tokens_per_s_per_user: Annotated[float, Doc("tokens that each user gets", "tokens/s")]
    tokens_per_s: Annotated[float, Doc("tokens that all users get", "tokens/s")]


@dataclass(frozen=True, kw_only=True)
class GpuVerifyResult(Result):
    """A pass over several new tokens of each user, as drafted ones are verified by."""

    tokens: Annotated[int, Doc("new tokens of a user")]
    s: Annotated[float, Doc("the pass", "s")]
    ratio_to_decode: Annotated[float, Doc("over a pass over one")]


@dataclass(frozen=True, kw_only=True)
class GpuEnergyResult(Result):
    """Joules of a generated token, from the power of GPUs while they serve."""

    joules_per_token: Annotated[float, Doc("energy of a generated token", "J")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "J")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    gpu_power_w: Annotated[float, Doc("power of a GPU", "W")]


@dataclass(frozen=True, kw_only=True)
class GpuCostResult(Result):
    """Dollars of a million generated tokens, from the price of a GPU's hour."""

    usd_per_million_tokens: Annotated[float, Doc("price of a million tokens", "USD")]
    usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "USD")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    gpu_usd_per_hour: Annotated[float, Doc("price of a GPU's hour", "USD")]
    gpu_usd_per_hour_low: Annotated[float, Doc("low end of its range", "USD")]
    gpu_usd_per_hour_high: Annotated[float, Doc("high end of its range", "USD")]

    @property
    def price_ends(self) -> PriceEnds:
        """Low end, value and high end of the price of an hour."""
        return self.gpu_usd_per_hour_low, self.gpu_usd_per_hour, self.gpu_usd_per_hour_high


@dataclass(frozen=True, kw_only=True)
class GpuDraftGain(Result):
    """The drafts that gain most for a number of users."""

    users: Annotated[int, Doc("users at a time")]
    draft_tokens: Annotated[int, Doc("best length of a draft, 0 where none gains")]
    draft_speed_up: Annotated[float, Doc("times as many tokens/s with it")]


@dataclass(frozen=True, kw_only=True)
class GpuEstimateResult(Result):
    """A model on GPUs: rates, times by term, memory, energy and cost, and the same over numbers of users."""

    inputs: Annotated[Mapping[str, str | int], Doc("the options with defaults filled in")]
    note: Annotated[str | None, Doc("what was decided unasked: an element type that no file states")] = None
    batch: Annotated[int, Doc("users at the same time")]
    model: Annotated[GpuModelResult, Doc("the model")]
    gpu: Annotated[GpuMachineResult, Doc("the GPU")]
    system: Annotated[GpuSystemResult, Doc("GPUs and software")]
    memory: Annotated[GpuMemoryResult, Doc("memory of all GPUs")]
    prefill: Annotated[GpuPrefillResult, Doc("a prompt that is read alone")]
    latency: Annotated[GpuLatencyResult, Doc("what a user waits for")]
    decode: Annotated[GpuDecodeResult, Doc("generated tokens")]
    verify: Annotated[GpuVerifyResult | None, Doc("a pass over several new tokens; with `--verify-tokens`")] = None
    drafts: Annotated[DraftPlanResult | None, Doc("the drafts that gain most for the batch; with `--draft`")] = None
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on these GPUs: the fastest without drafts, and the fastest with drafts"),
    ] = None
    energy: Annotated[GpuEnergyResult | None, Doc("joules of a token; absent for a GPU whose power is unknown")] = None
    cost: Annotated[GpuCostResult | None, Doc("dollars of a million tokens; absent where no price is known")] = None
    grades: Annotated[Mapping[str, GradeResult], Doc("by the key of a number, how well it is known")]
    serving: Annotated[ServingResult, Doc("what users get, and what a token costs")]
    batches: Annotated[tuple[GpuDraftGain, ...] | None, Doc("drafts by number of users; with `--draft`")] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the answer, published speeds, the time of a token by term, operating points, drafts and settings.

        Args:
            detail: Whether the answer has the grades of the numbers.
            width: Not used.
        """
        published = () if self.published is None else (published_table(self.published),)
        price = "" if self.cost is None else price_text(self.cost.price_ends, "GPU", self.cost.assumptions)
        drafts = () if self.drafts is None else (draft_table(self.drafts, "on the model's GPUs"),)
        gains = () if self.batches is None else (_gains_table(self.batches),)
        return (
            *gpu_answer_tables(self, detail=detail),
            *published,
            _terms_table(self.latency),
            points_table(self.serving, price),
            *drafts,
            *gains,
            _inputs_table(self),
        )


def _inputs_table(result: GpuEstimateResult) -> Table:
    options = [f"--{name.replace('_', '-')} {printable(value)}" for name, value in result.inputs.items()]
    return pair_table([("model", printable(result.inputs["model"])), ("options", " ".join(options[1:]))], "Settings")


def _terms_table(latency: GpuLatencyResult) -> Table:
    """Return the time of a token by term."""
    by = latency.tpot_by.to_dict()
    rows = [
        {"term": text, "s": by[key], "share": by[key] / latency.tpot_s}
        for key, text in sorted(TERMS.items(), key=lambda item: -by[item[0]])
        if by[key] > 0
    ]
    columns = (
        Column(key="term"),
        number("s", "", seconds),
        number("share", "", "{:.1%}".format),
    )
    return Table(columns=columns, rows=rows, title="Time per output token by cause")


def _gains_table(gains: Sequence[GpuDraftGain]) -> Table:
    """Return the drafts that gain most for each number of users."""
    columns = (
        number("users", "users"),
        number("draft_tokens", "drafted"),
        number("draft_speed_up", "gain", "{:.2f} x".format),
    )
    return Table(columns=columns, rows=gains, title="Best drafts by number of users")
