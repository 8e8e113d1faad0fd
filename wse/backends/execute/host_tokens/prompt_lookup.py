"""Drafts by prompt lookup: the tokens after an earlier occurrence of the text's last tokens.

Source: A. Saxena, Prompt Lookup Decoding, November 2023,
github.com/apoorvumang/prompt-lookup-decoding. The longest run of the last tokens, up to three, that
occurred before is used, at its first occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LONGEST_RUN: Final = 3
"""Maximum number of trailing tokens to look up, as in the source."""


def prompt_lookup(text_ids: Sequence[int], tokens: int) -> tuple[int, ...]:
    """Draft the tokens that followed an earlier occurrence of a sequence's last tokens.

    At most the last three tokens are looked up; a longer match is preferred. The result is empty if
    there is no match. An occurrence counts only if ``tokens`` tokens follow it, so a draft always
    has the length that a verification pass needs.

    Args:
        text_ids: Token ids of the text.
        tokens: Number of draft tokens, at least 1.

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
