"""Drafts by prompt lookup: the tokens that followed an earlier place of the text that ends as the text does now.

Source: A. Saxena, Prompt Lookup Decoding, November 2023, github.com/apoorvumang/prompt-lookup-decoding: the longest run
of at most three last tokens that occurs before, at its first place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LONGEST_RUN: Final = 3
"""Last tokens of the text that are looked up at most, as in the source."""


def prompt_lookup(text_ids: Sequence[int], tokens: int) -> tuple[int, ...]:
    """Return the draft of so many tokens, at least 1, after a text; none where no run of its last tokens occurs before.

    A run that is followed by fewer tokens is no match, so that a draft is as long as the pass that verifies it takes.

    >>> prompt_lookup((7, 8, 9, 4, 5, 8, 9), 2)
    (4, 5)
    >>> prompt_lookup((7, 8, 9, 4), 2)
    ()
    """
    text = tuple(text_ids)
    for run in range(LONGEST_RUN, 0, -1):
        end = text[-run:]
        for start in range(len(text) - run - tokens + 1):
            if text[start : start + run] == end:
                return text[start + run : start + run + tokens]
    return ()
