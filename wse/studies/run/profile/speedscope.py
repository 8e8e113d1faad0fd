"""Flame graph of a run in the speedscope file format, with the levels phase, op and kernel.

Format: https://www.speedscope.app/file-format-schema.json. The profile is of type ``sampled``: a
list of weighted stacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from wse.studies.run.profile.profile import TimedStep

PROFILE_OPTION = "--profile-output"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(name: str, steps: Sequence[TimedStep]) -> bytes:
    """Return a flame graph of step times, as the content of a speedscope file.

    Each step is a stack of three frames (phase, op and kernel), weighted by its time in seconds.

    Args:
        name: Title of the flame graph.
        steps: The steps of the run, in order.
    """
    frames: dict[str, int] = {}
    samples, weights = [], []
    for step in steps:
        samples.append([frames.setdefault(frame, len(frames)) for frame in (step.phase, step.op, step.kernel)])
        weights.append(step.s)
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    content = {"$schema": SCHEMA, "name": name, "shared": {"frames": [{"name": frame} for frame in frames]}}
    return json.dumps({**content, "profiles": [profile]}).encode()
