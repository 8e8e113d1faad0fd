"""A flame graph of a run's steps in the file format of speedscope: phases, their ops, the kernels of these.

Format: https://www.speedscope.app/file-format-schema.json, a profile of type ``sampled``, whose samples are stacks
with a weight each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from wse.studies.run.profile.profile import TimedStep

PROFILE_OPTION = "--profile-output"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(name: str, steps: Sequence[TimedStep]) -> bytes:
    """Return the file: a stack for each step in its order, weighted by its seconds."""
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
