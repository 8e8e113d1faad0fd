"""What a trace is of: the model, the wafer, the mapping, the options, the tokens."""

from __future__ import annotations

import numpy as np

from wse.inspect.query.opened import Facts
from wse_traces.read import Trace


def header_facts(trace: Trace) -> Facts:
    """Everything that was known before the first step."""
    header = trace.header
    return {
        "trace": str(trace.path),
        "complete": trace.complete,
        "created_by": header.created_by,
        "versions": dict(header.versions),
        "seed": header.seed,
        "program_digest": header.program_digest,
        "model": {"name": header.model},
        "wafer": {"name": header.wafer, "rows": header.rows, "cols": header.cols, "clock_hz": header.clock_hz},
        "system": {"wafers": header.wafers, "mapping": header.mapping, "stages": _stages(trace)},
        "options": dict(header.options),
    }


def token_facts(trace: Trace) -> Facts:
    """How many tokens were read and generated, and the text of each sequence."""
    is_prompt = trace.column("tokens/is_prompt") != 0
    sequences, user = np.unique(trace.column("tokens/sequence"), return_inverse=True)
    texts: list[list[bytes]] = [[] for _ in sequences]
    for of, text in zip(user.tolist(), trace.token_bytes(), strict=True):
        texts[of].append(text)
    read, every = (np.bincount(user, weights, len(texts)).astype(int) for weights in (is_prompt, None))
    users = [
        {
            "prompt_tokens": int(read[of]),
            "generated_tokens": int(every[of] - read[of]),
            "text": b"".join(parts).decode(errors="replace"),
        }
        for of, parts in enumerate(texts)
    ]
    return {
        "prompt_tokens": int(is_prompt.sum()),
        "generated_tokens": int((~is_prompt).sum()),
        **({"text": users[0]["text"] if users else ""} if len(users) < 2 else {}),
        "users": users,
        "emulation": {"wall_s": float(trace.column("passes/wall_s").sum())},
    }


def _stages(trace: Trace) -> list[dict[str, int]]:
    columns = trace.table("stage")
    wanted = ("wafer", "row", "col", "rows", "cols", "first_layer", "last_layer")
    return [{name: int(columns[name][i]) for name in wanted} for i in range(trace.rows("stage"))]
