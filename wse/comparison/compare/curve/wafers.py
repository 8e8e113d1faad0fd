"""WaferMachine: rates of streams in flight on wafers, by the closed form of a pipeline whose prompts are read too.

No stream is faster than alone, and no stage does two things at a time, so that M streams that make one request after
another, each with its prompt, finish one in max(T / M, W): T is a request alone, W the work of the busiest stage or
link for one (`wse.serving.pipelining.Requests`). A user decodes in what of its turn the prompt leaves, and no faster
than M tokens go through the slowest stage.
"""

from __future__ import annotations

from dataclasses import dataclass

from wse.comparison.compare.curve.machine import Service
from wse.comparison.compare.curve.row import WAFER
from wse.report.terminal import plural, printable
from wse.serving.cost import system_cost, system_energy
from wse.serving.economics import Economics
from wse.studies.estimate.result import EstimateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferMachine:
    """A compiled mapping on wafers. Times are seconds of one stream; ``link`` is in words where several are compared.

    Attributes:
        token_s: A token of each user of a stream alone.
        prompt_s: Their prompts alone.
        busiest_token_s: The work of the slowest stage or link for a token.
        busiest_request_s: That of the busiest for prompts and all tokens.
        new_tokens: Tokens that each user gets.
        most: Streams whose caches fit, or fewer where so many were asked for.
    """

    name: str
    chips: int
    software: str
    link: str
    users_per_batch: int
    most: int
    new_tokens: int
    token_s: float
    prompt_s: float
    busiest_token_s: float
    busiest_request_s: float
    economics: Economics
    kind: str = WAFER

    @property
    def machine(self) -> str:
        """The wafers, their mapping, and the link where several are compared."""
        text = f"{self.chips:,} {printable(self.name)}, {self.software}"
        return f"{text}, {self.link}" if self.link else text

    def service(self, batch: int) -> Service:
        """The rates and the cost of so many streams in flight."""
        request_s = max(self.prompt_s + self.new_tokens * self.token_s, batch * self.busiest_request_s)
        left_s = (request_s - self.prompt_s) / self.new_tokens
        rate = batch * self.users_per_batch * self.new_tokens / request_s
        return Service(
            tokens_per_s_per_user=1 / max(self.token_s, batch * self.busiest_token_s, left_s),
            tokens_per_s=rate,
            exact=batch == 1,
            cost=system_cost(self.chips, rate, self.economics),
            energy=system_energy(self.chips, rate, self.economics),
        )


def wafer_machine(
    result: EstimateResult, economics: Economics, mapping: str, link: str, new_tokens: int, streams: int | None
) -> WaferMachine | str:
    """The machine of an estimate with decoded tokens; or the reason why it serves nobody.

    Args:
        result: The estimate.
        economics: Price and power of a wafer.
        mapping: The mapping in words.
        link: The link between wafers in words; empty where there is one alone.
        new_tokens: Tokens that each user gets.
        streams: The most streams in flight; None for as many as fit.
    """
    schedule, decode, system = result.schedule, result.decode, result.system
    assert schedule is not None  # tokens are decoded
    assert decode is not None
    if not schedule.kv_limited_streams:
        return f"no stream of {plural(schedule.users_per_stream, 'user')} has room for its caches"
    room, token_s = schedule.kv_limited_streams, 1 / decode.tokens_per_s_per_user
    mean = token_s / schedule.single_stream_tpot_s  # the schedule is of the middle context, the rate of all contexts
    return WaferMachine(
        name=result.wafer.name,
        chips=system.wafers,
        software=mapping,
        link=link,
        users_per_batch=result.batch,
        most=room if streams is None else min(streams, room),
        new_tokens=new_tokens,
        token_s=token_s,
        prompt_s=0.0 if schedule.prefill is None else schedule.prefill.pipelined_s,
        busiest_token_s=mean * max(server.decode_busy_s for server in schedule.servers),
        busiest_request_s=max(s.prefill_busy_s + new_tokens * mean * s.decode_busy_s for s in schedule.servers),
        economics=economics,
    )
