"""A token as a writer is given it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Token(NamedTuple):
    """A token that was read or generated.

    Attributes:
        token_id: In the vocabulary, -1: not known.
        text: Its own bytes, which need not be UTF-8 alone.
        is_prompt: Whether it was read.
        pass_index: The pass that read or generated it, -1: none.
        position: In its sequence.
        sequence: Of the batch.
        cycles: From the token before it to this one, 0 in a prompt.
        wall_s: Seconds that the emulator took, 0 in a prompt.
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
    """Return the columns of tokens by their names in the schema, except the ends of their texts."""
    ids, _, prompts, passes, positions, sequences, cycles, wall_times_s = zip(*tokens, strict=True)
    place = {"pass": passes, "position": positions, "sequence": sequences}
    return {"id": ids, "is_prompt": np.array(prompts, "u1"), "cycles": cycles, "wall_s": wall_times_s, **place}
