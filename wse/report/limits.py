"""What limits a row, in one sentence that follows from its numbers by rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wse.report.as_json import Report


def limit_facts(report: Report) -> Report:
    """``limited_by``, the cause with the most cycles of a token, ``users_limited_by``, and the sentence ``limit``.

    Args:
        report: Of an estimate with decoded tokens, or as much of one as a trace gives: ``decode``, ``system``,
            ``latency``, and for users ``schedule``.
    """
    by = report["decode"]["cycles_by"]
    cause = max(by, key=lambda name: by[name])
    facts: Report = {"limited_by": cause}
    share = by[cause] / sum(by.values())
    sentence = f"{cause}: {share:.0%} of a token's cycles are ".replace("%", " %") + _WHAT[cause](report)
    schedule = report.get("schedule")
    if schedule is not None:
        facts["users_limited_by"] = schedule["limited_by"]
        sentence += f"; {_users(schedule)}"
    return {**facts, "limit": sentence}


def _hops(report: Report) -> str:
    return f"words on their way over {_lines(report)}"


def _relays(report: Report) -> str:
    return f"PEs that pass words on in code, along {_lines(report)}"


def _compute(report: Report) -> str:
    text = "vector operations in the PEs"
    arithmetic = report.get("bounds", {}).get("token", {}).get("bounds", {}).get("arithmetic", 0.0)
    if arithmetic:
        text += (
            f", {report['decode']['cycles_by']['compute'] / arithmetic:,.1f} times what the arithmetic takes at least"
        )
    return text


def _launch(report: Report) -> str:
    layers = sum(last - first + 1 for first, last in (s["layers"] for s in report["system"]["stages"] if s["layers"]))
    each = report["decode"]["cycles_by"]["launch"] / max(1, layers)
    return f"the start of steps and messages, {each:,.0f} for each of {layers} layers"


def _crossing(report: Report) -> str:
    text = f"streams between wafers: {told_bytes(report['crossing']['bytes_per_token'])}"
    if "link" in report:
        link = report["link"]
        text += f" over links of {link['bytes_per_s'] / 1e9:g} GB/s and {link['latency_s'] * 1e6:g} µs"
    return text


def _host(report: Report) -> str:
    return "waiting for the host"


_WHAT: Final[dict[str, Callable[[Report], str]]] = {
    "hops": _hops,
    "relays": _relays,
    "compute": _compute,
    "launch": _launch,
    "crossing": _crossing,
    "host": _host,
}


def _users(schedule: dict[str, Any]) -> str:
    """What bounds how many users are served at once, and with that all tokens of them."""
    each, enough, held = (schedule[key] for key in ("users_per_stream", "streams_to_saturate", "kv_limited_streams"))
    fit = f"KV cache: {many(held * each, 'user')} of {schedule['context_tokens']:,} tokens {_verb(held * each)}"
    if held < enough:
        return f"{fit}, {enough * each:,} would keep {_busiest(schedule)} busy"
    return f"{fit}, and {_busiest(schedule)} is busy all the time from {many(enough * each, 'user')} on"


def _busiest(schedule: dict[str, Any]) -> str:
    """The server that works longest for a token."""
    return f"the {max(schedule['servers'], key=lambda server: server['decode_busy_s'])['name']}".replace(
        "the stage ", "stage "
    )


def _lines(report: Report) -> str:
    """The longest lines of PEs among the stages' rectangles."""
    longest = max(max(stage["rows"], stage["cols"]) for stage in report["system"]["stages"])
    return f"lines of {longest:,} PEs"


def many(number: int, thing: str) -> str:
    """``1 wafer``, ``2 wafers``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _verb(number: int) -> str:
    return "fits" if number == 1 else "fit"


def told_bytes(number: float) -> str:
    """Bytes with three digits."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f} B"


def fraction(by: dict[str, float], cause: str) -> float:
    """The share of one cause in cycles."""
    total = sum(by.values())
    return by[cause] / total if total else 0.0
