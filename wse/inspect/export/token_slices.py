"""Passes and tokens on tracks of their own: when each was read or generated, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wse.inspect.export.chosen_passes import LATEST_CYCLE, Chosen, check_range
from wse.inspect.export.events import RUN, Slice, Track
from wse.inspect.export.lanes import Lanes
from wse.report.as_json import Report
from wse_traces.read import Trace
from wse_traces.schema import PHASES

LONGEST_NAME: Final = 80  # characters of a prompt
_LANES_A_USER: Final = 1000  # in the order of tracks


def pass_slices(trace: Trace, chosen: Chosen) -> Iterator[Slice]:
    """A slice for each pass."""
    passes, schedules, lanes = trace.table("pass"), trace.table("schedule"), Lanes()
    for index in chosen.passes.tolist():
        schedule, start = int(passes["schedule"][index]), int(passes["start_cycle"][index])
        cycles, phase = max(0, int(schedules["cycles"][schedule])), int(schedules["phase"][schedule])
        name = PHASES[phase] if phase < len(PHASES) else ""
        lane = lanes.place(start, start + cycles)
        track = Track(RUN, f"passes (at once: {lane + 1})" if lane else "passes", lane)
        facts = {"pass": index, "cycles": cycles, "kv_slots": int(schedules["kv_slots"][schedule])}
        facts |= {"schedule": schedule, "wall_s": float(passes["wall_s"][index])}
        yield Slice(track, f"{name} {index}", "pass", start, cycles, facts)


def token_slices(trace: Trace, chosen: Chosen) -> Iterator[Slice]:
    """For each user the passes that read the prompt, and generated tokens, from the one before to the end of theirs.

    None begins before the first of the chosen passes, so that a few tokens do not show the whole run before them.
    """
    tokens, texts = trace.table("token"), trace.token_bytes()
    check_range(trace, "tokens/cycles", tokens["cycles"], LATEST_CYCLE)
    passes, schedules = trace.table("pass"), trace.table("schedule")
    begin = int(passes["start_cycle"][chosen.passes].min(initial=1 << 62))
    read: dict[tuple[int, int], list[int]] = {}
    found: list[tuple[int, int, int, bool, list[int]]] = []
    for row in chosen.tokens.tolist():
        user, index = int(tokens["sequence"][row]), int(tokens["pass"][row])
        if tokens["is_prompt"][row]:
            read.setdefault((user, index), []).append(row)
        else:
            end = int(passes["start_cycle"][index] + schedules["cycles"][passes["schedule"][index]])
            start = end - max(0, int(tokens["cycles"][row]))
            found.append((min(end, max(begin, start)), end, user, False, [row]))
    for (user, index), rows in read.items():
        start, cycles = int(passes["start_cycle"][index]), int(schedules["cycles"][passes["schedule"][index]])
        found.append((start, start + max(0, cycles), user, True, rows))
    lanes: dict[tuple[int, bool], Lanes] = {}
    for start, end, user, prompt, rows in sorted(found):
        kind = "prompt" if prompt else "tokens"
        lane = lanes.setdefault((user, prompt), Lanes()).place(start, end)
        title = f"user {user}: {kind} (at once: {lane + 1})" if lane else f"user {user}: {kind}"
        track = Track(RUN, title, (2 * (1 + user) + (not prompt)) * _LANES_A_USER + lane)
        text = b"".join(texts[row] for row in rows).decode(errors="replace")
        one = len(rows) == 1
        facts: Report = {"token": rows[0]} if one else {"first_token": rows[0], "last_token": rows[-1]}
        facts |= {"position": int(tokens["position"][rows[0]]), "text": text}
        if one and tokens["id"][rows[0]] >= 0:
            facts["id"] = int(tokens["id"][rows[0]])
        if not prompt:
            facts |= {"cycles": int(tokens["cycles"][rows[0]]), "wall_s": float(tokens["wall_s"][rows[0]])}
        name = repr(text[:LONGEST_NAME]) if text else f"token {rows[0]}" if one else f"tokens {rows[0]} to {rows[-1]}"
        yield Slice(track, name, "prompt" if prompt else "token", start, end - start, facts)
