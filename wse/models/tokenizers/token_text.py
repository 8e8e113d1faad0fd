"""Text to token ids and back: what every tokenizer offers, and the checks of what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wse.errors import BadInput
from wse.models.tokenizers.chat_template import ChatTemplate


class TextStream(Protocol):
    """A decoder of ids that arrive one by one. ``push`` for each, then ``finish``, give the text of `decode`."""

    def push(self, token_id: int) -> str:
        """Return the text that is now certain, possibly empty; never a part of a character."""

    def finish(self) -> str:
        """Return the rest of the text: incomplete bytes as replacement characters."""


class Tokenizer(Protocol):
    """``vocab_size`` ids and their texts."""

    @property
    def vocab_size(self) -> int:
        """Number of ids with a text: 0 to vocab_size - 1."""

    @property
    def chat(self) -> ChatTemplate | None:
        """The model's chat template, if it has one."""

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end a text, in addition to those of the model's config."""

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """Return the ids of ``text`` with the tokens around it, such as a begin token.

        ``bare``: not that.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``. Begin and end tokens have none.

        Raises BadInput for an id outside the vocabulary.
        """

    def stream(self) -> TextStream:
        """Return a new stream at the beginning of a text; push the ids of the prompt into it too."""


def check_id(token_id: int, vocab_size: int) -> None:
    """Refuse an id outside 0 to vocab_size - 1 with `BadInput`."""
    if not 0 <= token_id < vocab_size:
        msg = f"token id {token_id} is outside the vocabulary; give ids from 0 to {vocab_size - 1:,}"
        raise BadInput(msg)


def checked_text(text: str) -> str:
    """Return ``text``.

    Raises `BadInput` if it contains half of a surrogate pair, which no encoding has.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        msg = f"the text is not Unicode at character {error.start}; give it in UTF-8, or as token ids"
        raise BadInput(msg) from error
    return text
