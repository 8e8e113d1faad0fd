"""The interface of all tokenizers, and checks of strings and token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wse.errors import BadInput
from wse.models.tokenizers.chat_template import ChatTemplate


class TextStream(Protocol):
    """A streaming decoder for token ids that arrive one by one.

    Concatenating the results of ``push`` for each id and of ``finish`` gives the text that `decode`
    returns.
    """

    def push(self, token_id: int) -> str:
        """Add a token and return the text that later tokens can no longer change.

        The text may be "" and never ends within a character.
        """

    def finish(self) -> str:
        """Return the remaining text, with replacement characters for incomplete bytes."""


class Tokenizer(Protocol):
    """A converter between strings and token ids."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids that have text: 0 to vocab_size - 1."""

    @property
    def chat(self) -> ChatTemplate | None:
        """Chat template of the model; None if there is none."""

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids of the tokens that end a sequence, in addition to those of the model's config."""

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """Return the token ids of a string.

        Args:
            text: Text to encode.
            bare: True to return only the tokens of the string itself, without tokens that are
                always added before or after it, such as a BOS token.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Decode token ids to text. BOS and EOS tokens have no text.

        Raises:
            BadInput: An id is outside the vocabulary.
        """

    def stream(self) -> TextStream:
        """Return a streaming decoder for a new sequence.

        The ids of the prompt must be pushed first, because the text of a token may depend on the
        preceding tokens.
        """


def check_id(token_id: int, vocab_size: int) -> None:
    """Raise BadInput if a token id is outside the range 0 to vocab_size - 1."""
    if not 0 <= token_id < vocab_size:
        raise BadInput(f"token id {token_id} is outside the vocabulary; give ids from 0 to {vocab_size - 1:,}")


def checked_text(text: str) -> str:
    """Return the text unchanged after checking that it can be encoded.

    Raises:
        BadInput: The text contains half of a surrogate pair, which no encoding can represent.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInput(
            f"the text is not Unicode at character {error.start}; give it in UTF-8, or as token ids"
        ) from error
    return text
