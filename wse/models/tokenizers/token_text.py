"""Text to token ids and back: what every tokenizer offers, and the checks of what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wse.errors import BadInput
from wse.models.tokenizers.chat_template import ChatTemplate


class TextStream(Protocol):
    """Text of ids that arrive one by one. ``push`` of each, then ``finish``, join to ``decode`` of all."""

    def push(self, token_id: int) -> str:
        """Return the text that became certain; never part of a character, so it may be empty."""

    def finish(self) -> str:
        """Return the rest of the text: bytes that no further id completed, as replacement characters."""


class Tokenizer(Protocol):
    """``vocab_size`` ids and their texts."""

    @property
    def vocab_size(self) -> int:
        """Ids that have a text: 0 to vocab_size - 1."""

    @property
    def chat(self) -> ChatTemplate | None:
        """The model's chat template, where it has one."""

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end a text besides those of the model's config."""

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """Return the ids of ``text`` and of what the tokenizer puts around it, such as a begin token.

        ``bare``: not that.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``. Begin and end tokens have none. BadInput: an id outside the vocabulary."""

    def stream(self) -> TextStream:
        """Return a new stream at the beginning of a text: push the prompt's ids into it too."""


def check_id(token_id: int, vocab_size: int) -> None:
    """Refuse an id outside 0 to vocab_size - 1 with `BadInput`."""
    if not 0 <= token_id < vocab_size:
        msg = f"token id {token_id} is outside the vocabulary; give ids from 0 to {vocab_size - 1:,}"
        raise BadInput(msg)


def checked_text(text: str) -> str:
    """``text``, unless it holds half a surrogate pair, which no encoding has: `BadInput`."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        msg = f"the text is not Unicode at character {error.start}; give it in UTF-8, or as token ids"
        raise BadInput(msg) from error
    return text
