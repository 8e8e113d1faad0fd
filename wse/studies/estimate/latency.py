"""What a user waits for: the first token, each further one, the whole answer; host and handshake told apart."""

from __future__ import annotations

from wse.fabric.causes import CAUSES
from wse.fabric.clock import Clock, PhaseTotals
from wse.hardware.spec import WaferSpec
from wse.program.program import Program
from wse.program.steps import HOST
from wse.report.as_json import Report


def latency_facts(clock: Clock, program: Program, wafer: WaferSpec) -> Report:
    """``latency``: seconds to the first token (TTFT), for each further one (TPOT) and for all of an answer.

    Prompts of a batch are read one after another, so the last user waits longest; ``ttft_s`` is that user's, counted
    from when the first prompt leaves the host until the first token has arrived there. Half of the wafer's round trip
    to the host is the handshake of the prompt and half that of the token on its way out, which the wafer does not wait
    for. Absent where nothing is decoded: what concerns further tokens.
    """
    prefill, decode = clock.prefill, clock.decode
    half = wafer.host_round_trip_s / 2
    carried = sum(bytes_ for (source, _), bytes_ in prefill.crossed.items() if source == HOST)
    waited = _seconds(prefill, "host", wafer)
    first = prefill.cycles / wafer.clock_hz + half
    facts: Report = {
        "ttft_s": first,
        "ttft_by": {
            "handshake_in_s": half,
            "prompt_in_s": waited - half,
            "crossing_s": _seconds(prefill, "crossing", wafer),
            "mesh_s": first - waited - half - _seconds(prefill, "crossing", wafer),
            "first_token_out_s": half,
        },
        "prompt_in_bytes": carried,
    }
    if program.batch > 1:
        facts["ttft_first_user_s"] = (first - 2 * half) / program.batch + 2 * half
    if decode.runs:
        each = decode.cycles / decode.runs / wafer.clock_hz
        host, crossing = (_seconds(decode, cause, wafer) / decode.runs for cause in ("host", "crossing"))
        whole = first + decode.cycles / wafer.clock_hz
        facts["tpot_s"] = each
        facts["tpot_by"] = {"host_s": host, "crossing_s": crossing, "mesh_s": each - host - crossing}
        facts["request_s"] = whole
        facts["request_tokens_per_s"] = (decode.runs + 1) / whole
    return facts


def _seconds(totals: PhaseTotals, cause: str, wafer: WaferSpec) -> float:
    return float(totals.by_cause[CAUSES.index(cause)]) / wafer.clock_hz
