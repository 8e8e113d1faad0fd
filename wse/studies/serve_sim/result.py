"""ServeResult: waiting times, machine utilisation and costs in a serving simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from wse.hardware.number import Grade
from wse.reports.intervals import RangeResult
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import with_settings_text
from wse.reports.table import Table, pair_table
from wse.reports.terminal import WIDEST, printable
from wse.serving.simulation.statistics import Distribution
from wse.studies.results.answer import machine_text
from wse.studies.results.placement import ModelResult
from wse.studies.serve_sim.machines.drafts import DraftsResult
from wse.studies.serve_sim.machines.kv_tiers import KvTierResult
from wse.studies.serve_sim.machines.machine import MachineResult
from wse.studies.serve_sim.machines.service_machines import KvTransferResult
from wse.studies.serve_sim.tables import machine_table, served_table, waits_table
from wse.studies.serve_sim.verdict import verdict_of


class WaitsResult(Result):
    """Distributions of queueing delay, TTFT and TPOT, for all requests or for one request tier."""

    requests: Annotated[int, Doc("number of requests")]
    queueing: Annotated[Distribution, Doc("from arrival until the request is admitted", "s")]
    ttft: Annotated[Distribution, Doc("time to first token, from arrival", "s")]
    tpot: Annotated[Distribution | None, Doc("time per output token after the first, one value per request", "s")] = (
        None
    )


class RequestsResult(Result):
    """The simulated requests: how many, when they arrive, and their mean lengths."""

    count: Annotated[int, Doc("number of requests")]
    arrivals: Annotated[str, Doc("`poisson`, `constant`, `bursts`, or the trace")]
    rate_per_s: Annotated[
        float | None,
        Doc("arrivals per second, or those served if users wait for answers; absent if all arrive at once", "1/s"),
    ] = None
    prompt_tokens: Annotated[float, Doc("mean tokens per prompt")]
    new_tokens: Annotated[float, Doc("mean tokens per answer")]
    rate_of_users: Annotated[int | None, Doc("users whose requests have this rate; with `--users` alone")] = None
    in_flight: Annotated[int | None, Doc("users who each send the next request when an answer ends")] = None
    think_s: Annotated[
        float | None, Doc("mean pause from an answer to the user's next request; absent if none", "s")
    ] = None
    trace_format: Annotated[str | None, Doc("format of the trace, if the requests come from one")] = None
    too_long: Annotated[
        int | None, Doc("requests of the trace that were left out because they exceed the context; absent if none")
    ] = None
    without_answer: Annotated[
        int | None, Doc("requests of the trace that were left out because they have no answer; absent if none")
    ] = None


class LoadResult(Result):
    """Load of a service (arrival rate relative to capacity), and whether its queue is stable."""

    capacity_requests_per_s: Annotated[float, Doc("requests served per second if some requests always wait", "1/s")]
    offered: Annotated[float | None, Doc("arrivals per second over capacity; absent if all arrive at once")] = None
    stable: Annotated[bool, Doc("whether fewer requests arrive than can be served, so that the queue stays finite")]
    overloaded_share: Annotated[
        float | None,
        Doc("fraction of the samples of the intervals in which the capacity is below a given rate of arrivals"),
    ] = None
    stable_requests_per_s: Annotated[float, Doc("arrivals per second at a load of 0.9", "1/s")]
    replicas_needed: Annotated[
        int | None, Doc("replicas needed for a load of at most 0.9 each; absent unless the service is overloaded")
    ] = None


class GoodputResult(Result):
    """Fraction and rate of requests served within the promised latencies."""

    ttft_s: Annotated[float | None, Doc("promised time to first token", "s")] = None
    tpot_s: Annotated[float | None, Doc("promised time per output token after the first", "s")] = None
    share: Annotated[float, Doc("fraction of requests within the promised times")]
    requests_per_s: Annotated[float, Doc("such requests per second", "1/s")]
    tokens_per_s: Annotated[float, Doc("their tokens per second", "tokens/s")]


class UseResult(Result):
    """How busy the machine, batch slots and KV caches are, from first arrival to last token."""

    busy: Annotated[float, Doc("fraction of the time in which a pass runs")]
    slowest_stage: Annotated[float, Doc("fraction of the time in which the slowest stage works")]
    prefill_busy: Annotated[float | None, Doc("the same for a separate machine that reads prompts")] = None
    in_flight: Annotated[float, Doc("mean number of requests that have arrived and are not complete")]
    users: Annotated[float, Doc("mean number of users whose tokens are decoded")]
    most_users: Annotated[int, Doc("batch slots: maximum number of users served at a time")]
    kv: Annotated[float, Doc("mean fraction of the KV-cache capacity that requests and kept prefixes occupy")]


class AmountResult(Result):
    """An amount of energy or money, with its uncertainty range and the assumption behind it."""

    value: Annotated[float, Doc("the amount")]
    range: Annotated[tuple[float, float], Doc("lowest and highest value, from the range of the assumption")]
    grade: Annotated[Grade, Doc("grade of the assumption")]
    source: Annotated[str, Doc("the assumption that it is based on")]


class LittleResult(Result):
    """A check of the simulation by Little's law.

    The mean number of requests in the system must equal the arrival rate times the mean time that a
    request spends in the system.
    """

    in_system: Annotated[float, Doc("mean number of requests in the system, counted event by event")]
    by_law: Annotated[float, Doc("requests per second times the mean time of a request in the system")]


class TierUseResult(Result):
    """Use of a memory tier, which stores prompt prefixes that were evicted from the KV cache."""

    name: Annotated[str, Doc("`sram`, `wafer` or `host`")]
    loaded_tokens: Annotated[int, Doc("prompt tokens that were loaded from the tier")]
    parked_tokens: Annotated[int, Doc("tokens that were copied to the tier; a state counts as tokens of the same size")]
    load_share: Annotated[float, Doc("fraction of the time in which a load occupied the link")]
    copy_share: Annotated[float, Doc("the same for copies to the tier, in the other direction of the link")]


class PrefixResult(Result):
    """How often a cached prompt prefix was reused, and the prompt tokens that this saved."""

    hits: Annotated[int, Doc("requests whose prefix, or its first part, was in the KV cache or loaded from a tier")]
    saved_tokens: Annotated[int, Doc("prompt tokens that were not prefilled again")]
    saved_share: Annotated[float, Doc("these tokens as a fraction of all prompt tokens")]
    token_shares: Annotated[
        Mapping[str, float],
        Doc(
            "fractions of all prompt tokens, which add up to 1: `cache` (were in the KV cache), the name of each tier "
            "(loaded from it), `recomputed` (the machine had read them for another prompt, and read them again) and "
            "`new`"
        ),
    ]
    kv_tiers: Annotated[tuple[TierUseResult, ...] | None, Doc("use of each tier; with `--kv-tiers`")] = None


class ServedResult(Result):
    """Statistics of a simulation's served requests: latencies, throughput, use and costs."""

    all: Annotated[WaitsResult, Doc("waiting times of all requests")]
    tiers: Annotated[Mapping[str, WaitsResult], Doc("waiting times of each tier; if there is a fast tier")]
    gaps: Annotated[Distribution | None, Doc("time between two tokens of a user, over all tokens", "s")] = None
    tokens_per_pass: Annotated[float | None, Doc("mean tokens that a pass adds to an answer; with drafts")] = None
    makespan_s: Annotated[float, Doc("from the first arrival until all requests are finished", "s")]
    tokens_per_s: Annotated[float, Doc("generated tokens of all users in that time", "tokens/s")]
    goodput: Annotated[GoodputResult | None, Doc("requests within the promised times; with `--ttft` or `--tpot`")] = (
        None
    )
    use: Annotated[UseResult, Doc("use of the machine, over all replicas")]
    joules_per_token: Annotated[
        AmountResult | None, Doc("energy per generated token, at the power of the systems in use", "J")
    ] = None
    usd_per_million_tokens: Annotated[AmountResult | None, Doc("price per million generated tokens", "USD")] = None
    usd_per_hour: Annotated[AmountResult | None, Doc("price of all machines per hour", "USD")] = None
    little: Annotated[LittleResult, Doc("Little's law")]
    prefix_cache: Annotated[PrefixResult | None, Doc("use of prefixes; with `--prefix-cache` or `--kv-tiers`")] = None


class ServeResult(Result):
    """Result of ``wse serve-sim``: the machine, the load, and statistics of served requests."""

    inputs: Annotated[Mapping[str, Any], Doc("the options, with defaults set")]
    note: Annotated[str | None, Doc("note about values that the user may not expect")] = None
    model: Annotated[ModelResult, Doc("the model, its element types and its bytes")]
    replicas: Annotated[int, Doc("number of identical machines that share the requests")]
    machine: Annotated[MachineResult, Doc("the machine that decodes, one replica")]
    prefill_machine: Annotated[MachineResult | None, Doc("the machine that reads prompts, if it is separate")] = None
    kv_transfer: Annotated[KvTransferResult | None, Doc("transfer of KV caches to the machine that decodes")] = None
    kv_tiers: Annotated[
        tuple[KvTierResult, ...] | None, Doc("tiers in which prefixes are parked; with `--kv-tiers`")
    ] = None
    drafts: Annotated[DraftsResult | None, Doc("the drafts that decode passes verify; with `--draft`")] = None
    requests: Annotated[RequestsResult, Doc("the requests")]
    load: Annotated[LoadResult, Doc("load relative to capacity")]
    served: Annotated[
        ServedResult | None, Doc("statistics of served requests; absent if the queue would grow without limit")
    ] = None
    ranges: Annotated[
        Mapping[str, RangeResult] | None,
        Doc("90 % intervals of figures; absent with a separate machine for prompts or a prefix cache; keys are paths"),
    ] = None
    timeline: Annotated[str | None, Doc("path of the timeline")] = None
    page: Annotated[str | None, Doc("path of the page")] = None

    @property
    def title(self) -> str:
        """One-line description of the model and the machine."""
        layout = self.machine.stack or f"{self.machine.mapping} for {self.inputs['objective']}"
        machine = with_settings_text(f"{self.machine.systems}, {layout}", self.inputs)
        prefill_result = self.prefill_machine
        machine = machine_text(machine, self.replicas)
        prompts = "" if prefill_result is None else f", prompts on {prefill_result.systems}"
        prompts += " each" if prompts and self.replicas > 1 else ""
        return f"{printable(self.model.name)} as {self.model.dtype} on {machine}{prompts}"

    @property
    def verdict(self) -> str:
        """Sentences on the load of the service and, if it was simulated, on how long users wait."""
        return verdict_of(self)

    @property
    def times_are_proportional(self) -> bool:
        """True if all times of the service scale with those of the decode machine.

        Only then are there 90 % intervals. Other times are those of a separate machine for prompts,
        of a prefix cache, and the maximum wait of a static batch.
        """
        has_prefix_cache = self.served is not None and self.served.prefix_cache is not None
        return not has_prefix_cache and self.prefill_machine is None and "batch_wait" not in self.inputs

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build tables of the verdict, the latencies, the machine utilisation and the assumptions.

        Args:
            detail: Has no effect on this result.
            width: Has no effect on this result.
        """
        note = [("", f"Note: {printable(self.note)}.")] if self.note else []
        tables = [pair_table([*note, ("", self.verdict)], self.title)]
        if self.served is not None:
            tables += [waits_table(self.served), served_table(self, self.served)]
        return (*tables, machine_table(self))
