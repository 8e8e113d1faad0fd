"""Tokens: what each is, and the cycles and the time since the token before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from wse.inspect.query.view import View
from wse.report.result import Doc, Result
from wse_traces.read import Trace


@dataclass(frozen=True, kw_only=True)
class TokenTime(Result):
    """One token. Those of a prompt come with their chunk and have no cycles; an estimate has no ids or texts."""

    token: Annotated[int, Doc("index of the token in the trace")]
    sequence: Annotated[int, Doc("sequence of the batch that it belongs to")]
    position: Annotated[int, Doc("position in its sequence")]
    of: Annotated[str, Doc("`prompt` or `generated`")]
    id: Annotated[int | None, Doc("id in the vocabulary")] = None
    text: Annotated[str | None, Doc("text of the token")] = None
    pass_: Annotated[int, Doc("pass that read or generated it, -1: none")]
    cycles: Annotated[int, Doc("from the token before it to this one, 0 in a prompt", "cycles")]
    s: Annotated[float, Doc("the same as time", "s")]
    wall_s: Annotated[float, Doc("time that the emulator took", "s")]


@dataclass(frozen=True, kw_only=True)
class TokensView(View):
    """Tokens in order, or the slowest first."""

    TABLE: ClassVar[str] = "tokens"

    tokens: Annotated[tuple[TokenTime, ...], Doc("the tokens")]


def read_tokens(trace: Trace, top: int | None) -> list[TokenTime]:
    """Every token in order or, with ``top``, those with the most cycles since the token before them, largest first."""
    tokens, texts = trace.table("token"), trace.token_texts()
    rows = range(len(texts))
    if top is not None:
        rows = np.argsort(-tokens["cycles"], kind="stable")[:top].tolist()
    clock_hz = trace.header.clock_hz
    return [
        TokenTime(
            token=row,
            sequence=int(tokens["sequence"][row]),
            position=int(tokens["position"][row]),
            of="prompt" if tokens["is_prompt"][row] else "generated",
            id=int(tokens["id"][row]) if tokens["id"][row] >= 0 else None,
            text=texts[row] or None,
            pass_=int(tokens["pass"][row]),
            cycles=int(tokens["cycles"][row]),
            s=int(tokens["cycles"][row]) / clock_hz,
            wall_s=float(tokens["wall_s"][row]),
        )
        for row in rows
    ]
