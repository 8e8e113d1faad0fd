"""Tokens in the form that a writer receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Token(NamedTuple):
    """A token that was read from a prompt or generated.

    Attributes:
        token_id: Id in the vocabulary, or -1 if it is unknown.
        text: UTF-8 bytes of the token, which may be only a part of a character.
        is_prompt: Whether the token belongs to a prompt.
        pass_index: Pass that read or generated the token, or -1.
        position: Position in its sequence.
        sequence: Index of the sequence in the batch.
        cycles: Cycles since the previous token; 0 for a prompt token.
        wall_s: Seconds that the emulator needed; 0 for a prompt token.
    """

    token_id: int
    text: bytes
    is_prompt: bool
    pass_index: int
    position: int
    sequence: int = 0
    cycles: int = 0
    wall_s: float = 0.0


def token_columns(tokens: Sequence[Token]) -> dict[str, Any]:
    """Return tokens as columns of the token table, keyed by column name.

    The column ``text_end`` is not included.
    """
    ids, _, prompts, passes, positions, sequences, cycles, wall_times_s = zip(*tokens, strict=True)
    place = {"pass": passes, "position": positions, "sequence": sequences}
    return {"id": ids, "is_prompt": np.array(prompts, "u1"), "cycles": cycles, "wall_s": wall_times_s, **place}
