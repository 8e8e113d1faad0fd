"""LibraryTokenizer: a tokenizer run by the tokenizers library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from wse.errors import BadModel
from wse.models.spec import ModelSpec
from wse.models.tokenizers.chat_template import ChatTemplate
from wse.models.tokenizers.token_text import check_id, checked_text

Library = Any  # tokenizers.Tokenizer, imported only when needed, which takes 20 ms

PADDING_FRACTION: Final = 0.01  # fraction of a model's table that may have no token, as tables are padded
LONGEST_REASON: Final = 120  # characters of the library's message
REPLACEMENT: Final = "\ufffd"


class LibraryTokenizer:
    """A tokenizer that uses the tokenizers library and adds fixed tokens to every text.

    Attributes:
        chat: Chat template of the model; None if there is none.
        table_size: Number of rows in the model's embedding table, including padding.
        vocab_size: Number of token ids that have text.
        end_ids: Tokens that end a sequence in addition to the config's end tokens; always empty.
    """

    end_ids: tuple[int, ...] = ()

    def __init__(
        self,
        library: Library,
        spec: ModelSpec,
        origin: str,
        *,
        prefix_ids: Sequence[int] = (),
        suffix_ids: Sequence[int] = (),
        rewrite: Callable[[str], str] = str,
        chat: ChatTemplate | None = None,
    ) -> None:
        """Wrap a tokenizer of the tokenizers library.

        Args:
            library: The tokenizer.
            spec: The model, whose vocabulary the tokenizer must match.
            origin: Path of the tokenizer's file, for messages.
            prefix_ids, suffix_ids: Tokens to add before and after the token ids that the library
                returns.
            rewrite: Function applied to the whole text first. The library's own normalizer is only
                applied to the parts between special tokens.
            chat: Chat template of the model.

        Raises:
            BadModel: The tokenizer has more tokens than the model, or over 1 % fewer.
        """
        self._library = library
        self._prefix_ids = tuple(prefix_ids)
        self._suffix_ids = tuple(suffix_ids)
        self._rewrite = rewrite
        self.chat, self._origin = chat, origin
        library.no_truncation()
        library.no_padding()
        self.table_size = spec.vocab_size
        added_tokens = library.get_added_tokens_decoder().items()
        self._silent_ids = (
            {i for i, token in added_tokens if token.special} | set(spec.eos_token_ids) | {*prefix_ids, *suffix_ids}
        )
        if spec.bos_token_id is not None:
            self._silent_ids.add(spec.bos_token_id)
        ids = library.get_vocab(with_added_tokens=True).values()
        self.vocab_size = max(ids, default=-1) + 1
        if not spec.vocab_size * (1 - PADDING_FRACTION) <= self.vocab_size <= spec.vocab_size:
            raise BadModel(
                f"{origin}: has {self.vocab_size:,} tokens, the model {spec.vocab_size:,}; "
                "use the tokenizer that belongs to the model"
            )

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """Return the token ids of a string.

        Args:
            text: Text to encode.
            bare: True to return only the tokens of the string itself, without tokens that are
                always added before or after it, such as a BOS token.
        """
        valid_text = checked_text(text)
        ids: list[int] = build(
            lambda: self._library.encode(self._rewrite(valid_text), add_special_tokens=not bare).ids, self._origin
        )
        return ids if bare else [*self._prefix_ids, *ids, *self._suffix_ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode token ids to text.

        Special tokens, and ids that only pad the model's embedding table, have no text.

        Raises:
            BadInput: An id is outside the model's embedding table.
        """
        for i in ids:
            check_id(i, self.table_size)
        return str(self._library.decode([i for i in ids if self.has_text(i)]))

    def stream(self) -> WindowStream:
        """Return a streaming decoder for a new sequence.

        The ids of the prompt must be pushed first, because the text of a token may depend on the
        preceding tokens.
        """
        return WindowStream(self)

    def has_text(self, token_id: int) -> bool:
        """Return whether a token adds text, that is, it is neither special nor padding."""
        return token_id not in self._silent_ids and self._library.id_to_token(token_id) is not None

    def is_byte(self, token_id: int) -> bool:
        """Return whether a token stands for one raw byte, such as ``<0xE2>``."""
        piece = self._library.id_to_token(token_id)
        return piece is not None and is_byte(piece)


class WindowStream:
    """A streaming decoder whose cost per token does not grow with the length of the sequence.

    It decodes only a sliding window of the last token ids. Text is held back while it ends in a
    replacement character or in raw bytes, because the next token may still change it: the library
    decodes a run of bytes as a whole.
    """

    def __init__(self, tokenizer: LibraryTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._sent_count = 0  # leading ids of the window whose text was sent

    def push(self, token_id: int) -> str:
        """Add a token and return the new text, possibly "", that later tokens cannot change."""
        check_id(token_id, self._tokenizer.table_size)
        if not self._tokenizer.has_text(token_id):
            return ""
        self._ids.append(token_id)
        text = self._unsent_text()
        if self._tokenizer.is_byte(token_id) or text.endswith(REPLACEMENT):
            return ""
        return self._send(text)

    def finish(self) -> str:
        """Return the remaining text, with replacement characters for incomplete bytes."""
        return self._send(self._unsent_text())

    def _unsent_text(self) -> str:
        """Return the text of the sliding window of tokens that has not been returned yet."""
        sent_text = self._tokenizer.decode(self._ids[: self._sent_count])
        return self._tokenizer.decode(self._ids)[len(sent_text) :]

    def _send(self, text: str) -> str:
        """Return new text, mark it as returned, and drop the ids that are no longer needed."""
        if text:
            del self._ids[: self._sent_count]
            self._sent_count = len(self._ids)
        return text


def is_byte(piece: str) -> bool:
    """Return whether a token's text denotes one raw byte, such as ``<0xE2>``."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def build(make: Callable[[], Any], origin: str) -> Any:
    """Call a function of the tokenizers library and convert its errors to `BadModel`.

    Args:
        make: Function that calls the library. Its result is returned.
        origin: Path of the tokenizer's file, for messages.

    Raises:
        BadModel: The library rejects its arguments. The message contains the reason.
    """
    try:
        return make()
    except BadModel:
        raise
    except BaseException as error:  # panics of the library are not a subclass of Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = str(error)[:LONGEST_REASON]
        raise BadModel(
            f"{origin}: not a tokenizer of the tokenizers library ({reason}); fetch the file again"
        ) from error
