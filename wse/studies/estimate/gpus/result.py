"""GpuEstimateResult: speeds and costs of a model on GPUs, and the tables that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from wse.hardware.number import Grade
from wse.reports.intervals import RangeResult
from wse.reports.number_text import seconds
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import PriceEnds, inputs_table, price_source, price_text
from wse.reports.table import Column, Table, number
from wse.reports.terminal import WIDEST
from wse.studies.estimate.drafts.result import DraftPlanResult, draft_table
from wse.studies.estimate.gpus.answer import TERMS, gpu_answer_tables
from wse.studies.estimate.grades import GradeResult
from wse.studies.results.operating_points import ServingResult, points_tables
from wse.studies.results.published import PublishedSpeed, published_table

Range = tuple[float, float]


class GpuModelResult(Result):
    """The model and its element types."""

    name: Annotated[str, Doc("name of the model")]
    parameters: Annotated[int, Doc("parameters, tied ones once")]
    dtype: Annotated[str, Doc("number format of the weights; in 4-bit mixtures of experts, that of the experts only")]
    cache_bits: Annotated[int, Doc("size of an element of the KV cache", "bits")]
    bytes: Annotated[int, Doc("weights on all GPUs", "B")]


class GpuMachineResult(Result):
    """Name, memory and bandwidth of the GPU."""

    name: Annotated[str, Doc("name of the GPU")]
    generation: Annotated[str, Doc("generation of the GPU")]
    hbm_bytes: Annotated[int, Doc("memory of a GPU", "B")]
    hbm_bytes_per_s: Annotated[float, Doc("stated bandwidth of its memory", "B/s")]


class GpuSystemResult(Result):
    """The GPUs that serve a model, how they share it, and their serving software."""

    gpus: Annotated[int, Doc("number of GPUs")]
    stack: Annotated[str, Doc("the serving stack")]
    software: Annotated[str, Doc("software and versions of the serving stack")]
    parallelism: Annotated[str, Doc("how the model is split: `tensor`, `experts` or `data`")]
    max_sequences: Annotated[int, Doc("maximum number of sequences that the stack has in flight")]


class GpuMemoryResult(Result):
    """Use of the memory of all GPUs: weights, drafts, and the capacity for KV caches if no draft is loaded."""

    weight_bytes: Annotated[int, Doc("weights", "B")]
    draft_bytes: Annotated[
        int | None,
        Doc("memory for the weights of a draft; a draft on a single GPU reserves its size on every GPU", "B"),
    ] = None
    kv_bytes_per_token: Annotated[float, Doc("KV cache of a token, without that of a draft", "B")]
    kv_capacity_tokens: Annotated[
        int, Doc("tokens of all users that fit in the KV cache if no draft is loaded and attention has no window")
    ]
    kv_capacity_users: Annotated[int, Doc("users with the requested lengths whose KV caches fit if no draft is loaded")]


class GpuPrefillResult(Result):
    """Time and speed at which a user's prompt is processed."""

    s: Annotated[float, Doc("time to read a prompt without other users", "s")]
    tokens_per_s: Annotated[float, Doc("tokens of a prompt, divided by TTFT", "tokens/s")]


class GpuTpotParts(Result):
    """Parts of a user's mean time per output token, such as the time to read the weights."""

    weights_s: Annotated[float, Doc("reading weights", "s")]
    cache_s: Annotated[float, Doc("reading the KV cache", "s")]
    compute_s: Annotated[float, Doc("matrix products", "s")]
    launch_s: Annotated[float, Doc("launching and synchronising kernels", "s")]
    all_reduce_s: Annotated[float, Doc("all-reduces: waiting for the other GPUs", "s")]
    crossing_s: Annotated[float, Doc("all-reduces: vectors on the links", "s")]
    host_s: Annotated[float, Doc("the host, between passes and for each user", "s")]
    prompts_s: Annotated[float, Doc("reading the prompts of other users", "s")]


class GpuLatencyResult(Result):
    """Latencies of a user while the GPUs also process the prompts of newly arriving users."""

    ttft_s: Annotated[
        float, Doc("expected time to first token: the rest of the running pass, then reading the prompt", "s")
    ]
    tpot_s: Annotated[float, Doc("time per output token after the first", "s")]
    tpot_by: Annotated[GpuTpotParts, Doc("the time per output token in parts")]
    bound_s: Annotated[
        float, Doc("lower bound of the time per output token: perfect software at the stated rates", "s")
    ]
    request_s: Annotated[float, Doc("latency of a request from its arrival to its last token", "s")]


class GpuDecodeResult(Result):
    """Output tokens/s, per user and for all users, on GPUs that also process new prompts."""

    tokens_per_s_per_user: Annotated[float, Doc("tokens that each user gets", "tokens/s")]
    tokens_per_s: Annotated[float, Doc("tokens that all users get", "tokens/s")]
    experts: Annotated[
        float | None,
        Doc("experts of a layer that the tokens of a pass select, on average; with `--routing`"),
    ] = None


class GpuVerifyResult(Result):
    """Duration of a verification pass, which checks several draft tokens per user at once."""

    tokens: Annotated[int, Doc("new tokens of each user")]
    s: Annotated[float, Doc("time of the pass", "s")]
    ratio_to_decode: Annotated[float, Doc("time of the pass, divided by that of a pass over one token")]


class GpuEnergyResult(Result):
    """Energy per generated token, computed from the power of GPUs while serving."""

    joules_per_token: Annotated[float, Doc("energy of a generated token", "J")]
    range: Annotated[Range | None, Doc("at the low and high end of the power; the speed is as estimated", "J")] = None
    grade: Annotated[Grade, Doc("grade of the power; `grades` takes the speed into account")]
    assumptions: Annotated[str, Doc("the assumptions and their sources")]
    gpu_power_w: Annotated[float, Doc("power of a GPU", "W")]


class GpuCostResult(Result):
    """Cost per million generated tokens, computed from the hourly price of a GPU."""

    usd_per_million_tokens: Annotated[float, Doc("price of a million tokens", "USD")]
    usd_per_million_tokens_low: Annotated[
        float, Doc("price of a million output tokens at the low end of the price range", "USD")
    ]
    usd_per_million_tokens_high: Annotated[
        float, Doc("price of a million output tokens at the high end of the price range", "USD")
    ]
    range: Annotated[Range | None, Doc("at the low and high end of the price; the speed is as estimated", "USD")] = None
    grade: Annotated[Grade, Doc("grade of the price; `grades` takes the speed into account")]
    assumptions: Annotated[str, Doc("the assumptions and their sources")]
    gpu_usd_per_hour: Annotated[float, Doc("price of a GPU's hour", "USD")]
    gpu_usd_per_hour_low: Annotated[float, Doc("low end of its range", "USD")]
    gpu_usd_per_hour_high: Annotated[float, Doc("high end of its range", "USD")]

    @property
    def price_ends(self) -> PriceEnds:
        """Hourly price of a GPU in USD: low end, value and high end."""
        return self.gpu_usd_per_hour_low, self.gpu_usd_per_hour, self.gpu_usd_per_hour_high


class GpuDraftGain(Result):
    """The best number of draft tokens for a certain number of users, and the resulting speed-up."""

    users: Annotated[int, Doc("concurrent users")]
    draft_tokens: Annotated[int, Doc("the best number of draft tokens; 0 if drafts are not faster")]
    draft_speed_up: Annotated[
        float,
        Doc("tokens/s of a user with that number, divided by those without drafts; at most the gain in throughput"),
    ]


class GpuEstimateResult(Result):
    """Estimate for a model on GPUs: speeds, latencies, memory use, energy and cost.

    The fields ``serving`` and ``batches`` also cover other numbers of users. All other fields are
    for the requested number.
    """

    inputs: Annotated[Mapping[str, str | float], Doc("the options with defaults filled in")]
    note: Annotated[
        str | None, Doc("an element type that was chosen because no file states it, and prices that are not used")
    ] = None
    batch: Annotated[int, Doc("concurrent users")]
    model: Annotated[GpuModelResult, Doc("the model")]
    gpu: Annotated[GpuMachineResult, Doc("the GPU")]
    system: Annotated[GpuSystemResult, Doc("GPUs and software")]
    memory: Annotated[GpuMemoryResult, Doc("memory of all GPUs")]
    prefill: Annotated[GpuPrefillResult, Doc("reading a prompt")]
    latency: Annotated[GpuLatencyResult, Doc("times that a user waits with `serving.users` concurrent users")]
    decode: Annotated[GpuDecodeResult, Doc("generated tokens with `serving.users` concurrent users")]
    verify: Annotated[GpuVerifyResult | None, Doc("a pass over several new tokens; with `--verify-tokens`")] = None
    drafts: Annotated[DraftPlanResult | None, Doc("the best drafts for the batch; with `--draft`")] = None
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on these GPUs: the fastest without drafts, and the fastest with drafts"),
    ] = None
    energy: Annotated[GpuEnergyResult | None, Doc("energy of a token; absent for a GPU whose power is unknown")] = None
    cost: Annotated[GpuCostResult | None, Doc("cost of a million tokens; absent if no price is known")] = None
    grades: Annotated[Mapping[str, GradeResult], Doc("evidence grades; keys are paths of numbers in this result")]
    serving: Annotated[ServingResult, Doc("speeds for users, and the cost of a token")]
    ranges: Annotated[
        Mapping[str, RangeResult], Doc("90 % intervals of headline figures; keys are paths of numbers in this result")
    ]
    batches: Annotated[
        tuple[GpuDraftGain, ...] | None, Doc("best drafts, one row per number of users; with `--draft`")
    ] = None

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the tables of the estimate.

        They show the main numbers, published speeds, the parts of a token's time, the speed and
        cost for various user counts, drafts, and the settings.

        Args:
            detail: Whether to add a grade for the reliability of each main number.
            width: Not used.
        """
        published = () if self.published is None else (published_table(self.published),)
        price = (
            "" if self.cost is None else price_text(self.cost.price_ends, "GPU", price_source(self.cost.assumptions))
        )
        drafts = () if self.drafts is None else (draft_table(self.drafts, "on the model's GPUs"),)
        gains = () if self.batches is None else (_gains_table(self.batches),)
        return (
            *gpu_answer_tables(self, detail=detail),
            *published,
            _terms_table(self.latency),
            *points_tables(self.serving, price),
            *drafts,
            *gains,
            inputs_table(self.inputs, {}),
        )


def _terms_table(latency: GpuLatencyResult) -> Table:
    """Return a table that breaks the time per output token down by cause, largest part first."""
    seconds_by_part = latency.tpot_by.to_dict()
    rows = [
        {"term": text, "s": seconds_by_part[key], "share": seconds_by_part[key] / latency.tpot_s}
        for key, text in sorted(TERMS.items(), key=lambda item: -seconds_by_part[item[0]])
        if seconds_by_part[key] > 0
    ]
    columns = (
        Column(key="term"),
        number("s", "", seconds),
        number("share", "", "{:.1%}".format),
    )
    return Table(columns=columns, rows=rows, title="Time per output token by cause")


def _gains_table(gains: Sequence[GpuDraftGain]) -> Table:
    """Return a table of the best number of draft tokens for each user count."""
    columns = (
        number("users", "users"),
        number("draft_tokens", "drafted"),
        number("draft_speed_up", "gain", "{:.2f} x".format),
    )
    return Table(columns=columns, rows=gains, title="Best drafts by number of users")
