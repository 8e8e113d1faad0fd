"""The tokens that were read and generated, with what each took."""

from __future__ import annotations

import numpy as np

from wse.inspect.query.opened import Facts
from wse_traces.read import Trace


def token_rows(trace: Trace, top: int | None) -> list[Facts]:
    """Every token in order or, with ``top``, those with the most cycles since the token before them, largest first.

    Prompt tokens come together with their chunk and have no cycles of their own; an estimate has neither ids nor texts.
    """
    tokens, texts = trace.table("token"), trace.token_texts()
    wanted = range(len(texts))
    if top is not None:
        wanted = np.argsort(-tokens["cycles"], kind="stable")[:top].tolist()
    clock_hz = trace.header.clock_hz
    return [
        {
            "token": at,
            "sequence": int(tokens["sequence"][at]),
            "position": int(tokens["position"][at]),
            "of": "prompt" if tokens["is_prompt"][at] else "generated",
            **({"id": int(tokens["id"][at])} if tokens["id"][at] >= 0 else {}),
            **({"text": texts[at]} if texts[at] else {}),
            "pass": int(tokens["pass"][at]),
            "cycles": int(tokens["cycles"][at]),
            "s": int(tokens["cycles"][at]) / clock_hz,
            "wall_s": float(tokens["wall_s"][at]),
        }
        for at in wanted
    ]
