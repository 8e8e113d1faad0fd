"""Passes and tokens on tracks of their own: when each was read or generated, and what it says."""

from __future__ import annotations

from collections.abc import Iterator

from wse.studies.export.chosen_passes import Chosen
from wse.studies.export.events import RUN, Instant, Slice, Track
from wse.studies.export.lanes import Lanes
from wse_traces.read import Trace
from wse_traces.schema import PHASES

_LANES_A_USER = 1000  # in the order of tracks


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


def token_events(trace: Trace, chosen: Chosen) -> Iterator[Slice | Instant]:
    """Generated tokens as slices from the token before, ending with their pass; prompt tokens when their pass ends."""
    tokens, texts = trace.table("token"), trace.token_texts()
    passes, schedules = trace.table("pass"), trace.table("schedule")
    found: list[tuple[int, int, int]] = []
    for row in chosen.tokens.tolist():
        index = int(tokens["pass"][row])
        end = int(passes["start_cycle"][index] + schedules["cycles"][passes["schedule"][index]])
        found.append((end if tokens["is_prompt"][row] else end - max(0, int(tokens["cycles"][row])), end, row))
    users: dict[int, Lanes] = {}
    for start, end, row in sorted(found):
        user, number, prompt = int(tokens["sequence"][row]), int(tokens["id"][row]), bool(tokens["is_prompt"][row])
        facts = {"token": row, "position": int(tokens["position"][row]), "text": texts[row]}
        facts |= {"id": number} if number >= 0 else {}
        name = repr(texts[row]) if texts[row] else f"token {row}"
        order = 1 + user
        if prompt:
            track = Track(RUN, f"user {user}: prompt", 2 * order * _LANES_A_USER)
            yield Instant(track, name, "prompt", start, facts)
            continue
        lane = users.setdefault(user, Lanes()).place(start, end)
        title = f"user {user}: tokens (at once: {lane + 1})" if lane else f"user {user}: tokens"
        track = Track(RUN, title, (2 * order + 1) * _LANES_A_USER + lane)
        facts |= {"cycles": end - start, "wall_s": float(tokens["wall_s"][row])}
        yield Slice(track, name, "token", start, end - start, facts)
