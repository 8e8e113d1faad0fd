"""View of the tokens: their texts, and the cycles and time since the previous token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.view import View
from wse_traces.reader.read import Trace


@dataclass(frozen=True, kw_only=True)
class TokenTime(Result):
    """Token of a run with its text, and the cycles and time since the previous token.

    Prompt tokens have no cycles. Tokens of an estimate have neither ids nor texts.
    """

    token: Annotated[int, Doc("index of the token in the trace")]
    sequence: Annotated[int, Doc("sequence of the batch that the token belongs to")]
    position: Annotated[int, Doc("position in its sequence")]
    of: Annotated[str, Doc("`prompt` or `generated`")]
    id: Annotated[int | None, Doc("id in the vocabulary")] = None
    text: Annotated[str | None, Doc("text of the token")] = None
    pass_: Annotated[int, Doc("pass that read or generated the token, -1: none")]
    cycles: Annotated[int, Doc("cycles since the previous token, 0 in a prompt", "cycles")]
    s: Annotated[float, Doc("time since the previous token, 0 in a prompt", "s")]
    wall_s: Annotated[float, Doc("time that the emulator needed", "s")]


@dataclass(frozen=True, kw_only=True)
class TokensView(View):
    """View of the tokens of all users with their cycles, either in order or slowest first."""

    TABLE: ClassVar[str] = "tokens"

    tokens: Annotated[tuple[TokenTime, ...], Doc("the tokens")]


def read_tokens(trace: Trace, top: int | None) -> list[TokenTime]:
    """Return the tokens of all users: all tokens in order, or the ``top`` slowest tokens.

    Slowest means most cycles since the previous token.
    """
    texts, cycles = trace.token_texts(), trace.column("tokens/cycles")
    rows = np.arange(len(texts)) if top is None else np.argsort(-cycles, kind="stable")[:top]
    return [
        TokenTime.from_record(
            record,
            token=row,
            of=record["is_prompt"],
            id=record["id"] if record["id"] >= 0 else None,
            text=texts[row] or None,
            s=record["cycles"] / trace.header.clock_hz,
        )
        for row, record in zip(rows.tolist(), trace.records("token", rows), strict=True)
    ]
